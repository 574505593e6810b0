"""The rooms: small folders whose map is true, one name for one class, and no dust."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGES, ROOT, Source, plant, references, sources

pytestmark = pytest.mark.xdist_group("tree")  # one worker reads it, once

FOLDER_FILES_MAX = 16
DUST_LINES = 60
EXCUSE = "A file of its own"  # a small file with one importer says why it is not merged, in these words

# The blocking client has the names of the asynchronous one, and is nothing but its face.
FACES = {"jjq/blocking.py"}


def _files(root: Path) -> list[Source]:
    """Files of the product with content: a package's own file is its map, and is counted by itself."""
    return [s for s in sources(root, PACKAGES) if s.path.name != "__init__.py"]


def crowded_folders(root: Path) -> list[str]:
    counts = Counter(str(source.path.parent) for source in _files(root))
    return [f"{folder}: {n} files" for folder, n in sorted(counts.items()) if n > FOLDER_FILES_MAX]


def names_used_twice(root: Path) -> list[str]:
    """Public classes of the same name in several files."""
    homes: dict[str, list[str]] = defaultdict(list)
    for source in _files(root):
        if str(source.path) not in FACES:
            for node in source.tree().body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].append(str(source.path))
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(homes.items()) if len(paths) > 1]


def dust(root: Path) -> list[str]:
    """Small files that only one other file uses, and that do not say why they are files of their own."""
    importers: Counter[str] = Counter()
    for source in sources(root, PACKAGES):
        importers.update({name for name in references(source) if name != source.module})
    return [
        f"{s.path}: {s.lines} lines, one importer"
        for s in _files(root)
        if s.lines < DUST_LINES
        and importers[s.module] == 1
        and EXCUSE not in (ast.get_docstring(s.tree()) or "")
    ]


def rooms_without_map(root: Path) -> list[str]:
    """Files that the docstring of their room does not name."""
    missing: list[str] = []
    for package in sorted(root.glob("*/*/**/__init__.py")):
        room = package.parent.relative_to(root)
        if room.parts[0] not in PACKAGES or room.parts[:2] == ("jjq", "v1"):
            continue
        text = ast.get_docstring(ast.parse(package.read_text("utf-8"))) or ""
        missing += [
            f"{room}: {file.name} is not on its map"
            for file in sorted(package.parent.glob("*.py"))
            if file.stem not in {"__init__", "__main__"} and not re.search(rf"\b{file.stem}\b", text)
        ]
    return missing


def test_no_folder_is_crowded() -> None:
    assert crowded_folders(ROOT) == []


def test_one_name_means_one_class() -> None:
    assert names_used_twice(ROOT) == []


def test_no_dust_lies_about() -> None:
    assert dust(ROOT) == []


def test_every_room_names_its_files() -> None:
    assert rooms_without_map(ROOT) == []


# Each rule on a tree that breaks it: a check that cannot fail proves nothing.


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    plant(tmp_path, {f"jjq/room/file{n}.py": "" for n in range(17)})
    assert crowded_folders(tmp_path) == ["jjq/room: 17 files"]


def test_a_name_that_is_used_twice_is_found(tmp_path: Path) -> None:
    plant(
        tmp_path, {"jjq/a.py": "class Thing: ...\n", "hotstore/b.py": "class Thing: ...\nclass _Own: ...\n"}
    )
    plant(tmp_path, {"coldstore/c.py": "class _Own: ...\n", "jjq/blocking.py": "class Thing: ...\n"})
    assert names_used_twice(tmp_path) == ["Thing: hotstore/b.py, jjq/a.py"]


def test_a_small_file_with_one_importer_is_found_unless_it_says_why(tmp_path: Path) -> None:
    plant(tmp_path, {"jjq/a.py": "import jjq.b, jjq.c, jjq.d\n", "jjq/b.py": "x = 1\n"})
    plant(tmp_path, {"jjq/c.py": '"""C. A file of its own: it is a script."""\n', "jjq/d.py": "x = 1\n" * 60})
    assert dust(tmp_path) == ["jjq/b.py: 1 lines, one importer"]


def test_a_file_that_is_not_on_the_map_is_found(tmp_path: Path) -> None:
    plant(tmp_path, {"jjq/room/a.py": "", "jjq/room/b.py": ""})
    (tmp_path / "jjq/room/__init__.py").write_text('"""A room: a.py is inside."""\n')
    assert rooms_without_map(tmp_path) == ["jjq/room: b.py is not on its map"]
