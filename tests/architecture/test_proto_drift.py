"""The generated wire code in the tree is what its .proto gives, and a difference is found."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.architecture.tree import ROOT, plant

PROTO = 'syntax = "proto3";\npackage jjq.v1;\nmessage A { int64 offset = 1; }\n'


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """proto/ is no package, so its tool is loaded by its path."""
    spec = importlib.util.spec_from_file_location("generate_proto", ROOT / "proto" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_code_is_current(generator: ModuleType) -> None:
    assert generator.drift(ROOT) == []


def test_a_tree_without_schema_is_current(generator: ModuleType, tmp_path: Path) -> None:
    assert generator.drift(tmp_path) == []


def test_missing_changed_and_orphaned_code_is_found(generator: ModuleType, tmp_path: Path) -> None:
    plant(tmp_path, {"proto/jjq/v1/a.proto": PROTO})
    assert "jjq/v1/a_pb2.py: missing" in generator.drift(tmp_path)

    generator.generate(tmp_path, tmp_path)
    assert generator.drift(tmp_path) == []

    plant(tmp_path, {"proto/jjq/v1/a.proto": PROTO.replace("offset", "position")})
    assert "jjq/v1/a_pb2.pyi: differs from its .proto" in generator.drift(tmp_path)

    (tmp_path / "proto/jjq/v1/a.proto").unlink()
    assert "jjq/v1/a_pb2.py: no .proto for it" in generator.drift(tmp_path)
