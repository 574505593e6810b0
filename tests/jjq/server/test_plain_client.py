"""The .proto is all that another language needs."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.jjq.server import plainclient
from tests.jjq.serving import Served


async def run(*command: str, cwd: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def test_a_client_without_any_code_of_ours_creates_pushes_pops_and_replays(
    hot: Served, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "proto/jjq/v1/jjq.proto", tmp_path / "plain.proto")
    shutil.copy(str(plainclient.__file__), tmp_path / "plainclient.py")
    protoc = (sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "--grpc_python_out=.")
    await run(*protoc, "plain.proto", cwd=tmp_path)
    seen = json.loads(await run(sys.executable, "plainclient.py", hot.server.address, cwd=tmp_path))
    assert seen == {
        "receipt": [0, 5],
        "streamed": [10, 11, 12],
        "popped": ['{"n":0}', '{"n":1}', '{"n":2}', '{"n":3}'],
        "keys": ["k"],
        "headers": True,
        "streamed pops": [[0, 1, 2], "ERROR_KIND_NOT_FOUND"],
        "replayed": [3, 4, 5, 6, 7, 8, 9, 10],
        "delivered": [4, 5],
        "error": "NOT_FOUND",
        "foreign": [],
    }
