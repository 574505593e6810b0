"""Generate the wire code from every .proto under proto/, or check that what is in the tree is current.

    python proto/generate.py            write proto/jjq/v1/jjq.proto -> jjq/v1/jjq_pb2.py, .pyi, _grpc.py
    python proto/generate.py --check    write nothing; exit 1 if the tree differs from what would be written

The path of a .proto equals the import path of its code, so protoc's output is used as it comes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATTERNS = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")
INIT = '"""Generated from proto/ by `make proto`; not to be edited."""\n'


def sources(root: Path) -> list[str]:
    """Every .proto under `root`/proto, relative to `root`."""
    return sorted(str(path.relative_to(root)) for path in (root / "proto").rglob("*.proto"))


def generate(root: Path, out: Path) -> None:
    """Write the code for the .proto files of `root` below `out`."""
    protos = sources(root)
    if not protos:
        return
    outputs = [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-Iproto", *outputs, *protos], cwd=root, check=True
    )
    for proto in protos:
        folder = out / Path(proto).relative_to("proto").parent
        (folder / "__init__.py").write_text(INIT)


def drift(root: Path) -> list[str]:
    """One line for each file that is missing, differs, or has lost its .proto."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        generate(root, out)
        wanted = {path.relative_to(out): path.read_bytes() for path in out.rglob("*.py*") if path.is_file()}
    folders = {path.parts[0] for path in wanted} | {"jjq"}
    present = {
        path.relative_to(root)
        for folder in folders
        for glob in PATTERNS
        for path in (root / folder).rglob(glob)
    }
    found = [f"{path}: no .proto for it" for path in sorted(present - wanted.keys())]
    for path, content in sorted(wanted.items()):
        if not (root / path).is_file():
            found.append(f"{path}: missing")
        elif (root / path).read_bytes() != content:
            found.append(f"{path}: differs from its .proto")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate the wire code from proto/.")
    parser.add_argument("--check", action="store_true", help="only report whether the tree is current")
    if not parser.parse_args().check:
        generate(ROOT, ROOT)
        return 0
    found = drift(ROOT)
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print("generated code is not current: run `make proto` and commit the result", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
