"""Joins the ES modules of the console into one script, as it is served.

The sources are many small modules. One by one they compress badly (91 KB in all, 52 KB together) and take a request
each. So the server joins them when it starts; nobody has to build anything. What comes out stays readable: names and
lines are those of the sources, only comments and indentation are gone.

    import {html, …} from "./vendor/preact.js";         once, for all modules
    const M={};                                         what modules export, by name
    {const {cell}=M;                                    a module is a block: what it does not export stays its own
    …
    Object.assign(M,{key,request,get});}
    export {M};                                         for scripts that are loaded later

A script that is loaded on demand (`import("./screens/sql.js")`) is joined likewise, without the modules that the first
script has; it takes those from M.

The form that modules must have, which is checked: imports are one line each, below no other statement; exports stand
before what they export; no two modules export the same name; no circles.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

_IMPORT: Final = re.compile(r'^import \{ (.+) \} from "(\..+)";$')
_EXPORT: Final = re.compile(r"^export ((?:async )?(?:function\*?|const|class) (\w+))")
_DEMAND: Final = re.compile(r'\bimport\("(\./[^"]+)"\)')
_NOTE: Final = re.compile(r"(?<=[;,{}\])]) // .*$")
_VENDOR: Final = "vendor/"


class ModuleError(ValueError):
    """A module of the console is not in the form that can be joined."""


class JoinedScripts:
    """The scripts of the console: `entry`, and those that it loads on demand, by their paths."""

    def __init__(self, modules: Mapping[str, str], entry: str) -> None:
        self.scripts: dict[str, str] = {}
        self._modules, self._entry = modules, entry
        self._exporter: dict[str, str] = {}  # name → the module that exports it
        self._done: set[str] = set()  # modules that are part of a script
        self._demanded: list[str] = [entry]
        for path in self._demanded:  # grows meanwhile
            if path not in self.scripts:
                self.scripts[path] = self._script(path)

    def _script(self, entry: str) -> str:
        libraries: dict[str, set[str]] = {}
        blocks: list[str] = []
        self._add(entry, (), libraries, blocks)
        first = entry == self._entry
        head = [_import(entry, path, names) for path, names in sorted(libraries.items())]
        head.append("const M={};" if first else _import(entry, self._entry, {"M"}))
        own = [name for name, module in self._exporter.items() if module == entry]
        return "\n".join(
            [*head, *blocks, "export {M};" if first else f"export const {{{','.join(own)}}}=M;", ""]
        )

    def _add(
        self, path: str, above: tuple[str, ...], libraries: dict[str, set[str]], blocks: list[str]
    ) -> None:
        if path in above:
            raise ModuleError(f"modules import each other: {' → '.join((*above, path))}")
        if path in self._done:
            return
        lines: list[str] = []
        exported: list[str] = []
        for line in map(str.strip, self._modules[path].splitlines()):
            if not line or line.startswith("//"):
                continue
            if found := _IMPORT.match(line):
                names, target = found[1], _resolve(path, found[2])
                if target.startswith(_VENDOR):
                    libraries.setdefault(target, set()).update(names.split(", "))
                else:
                    self._add(target, (*above, path), libraries, blocks)
                    lines.append(f"const {{{names.replace(' as ', ':').replace(', ', ',')}}}=M;")
                continue
            if found := _EXPORT.match(line):
                exported.append(self._claim(found[2], path))
                line = line.removeprefix("export ")
            elif line.startswith(("import ", "export ")):
                raise ModuleError(f"{path}: cannot join {line!r}")
            self._demanded += [_resolve(path, target) for target in _DEMAND.findall(line)]
            lines.append(_NOTE.sub("", line))
        if exported:
            lines.append(f"Object.assign(M,{{{','.join(exported)}}});")
        blocks.append("{" + "\n".join(lines) + "}")
        self._done.add(path)

    def _claim(self, name: str, path: str) -> str:
        if (other := self._exporter.setdefault(name, path)) != path:
            raise ModuleError(f"{other} and {path} both export {name}")
        return name


def join_styles(texts: list[str]) -> str:
    """Style sheets as one, without comments and without spaces that mean nothing."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(texts), flags=re.DOTALL)
    text = re.sub(r"\s*([{};,])\s*|(:) ", r"\1\2", text).replace(";}", "}")
    return text.replace("}", "}\n")


def _resolve(base: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), target))


def _import(base: str, path: str, names: set[str]) -> str:
    relative = posixpath.relpath(path, posixpath.dirname(base) or ".")
    target = relative if relative.startswith(".") else f"./{relative}"
    return f'import {{{",".join(sorted(names))}}} from "{target}";'
