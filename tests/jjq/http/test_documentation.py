"""docs/http.md: its curl examples are run, in order, against a server."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from tests.jjq.http.asking import Web

PAGE = Path(__file__).parents[3] / "docs/http.md"


def examples() -> list[str]:
    """Each block of the page, as it is written."""
    return re.findall(r"```bash\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


async def run(script: str, port: int) -> str:
    """What a script prints; every curl in it must get an answer."""
    told = script.replace("localhost:7576", f"127.0.0.1:{port}").replace("curl ", "curl -sS ")
    process = await asyncio.create_subprocess_exec(
        "bash", "-ec", told, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return said.decode()


async def test_every_example_does_what_the_page_says(web: Web) -> None:
    said = [await run(script, web.port) for script in examples()]
    (
        made,
        pushed,
        lines,
        read,
        events,
        filed,
        ranged,
        resumed,
        popping,
        working,
        retried,
        counted,
        live,
        purging,
        missing,
    ) = said
    assert json.loads(made)["content"] == "json"
    assert json.loads(pushed)["first_offset"] == 0
    assert json.loads(lines)["count"] == 2
    first = json.loads(read.splitlines()[0])
    assert (first["value"], first["key"], first["headers"]) == (
        {"id": 1, "total": 9.5},
        "customer-7",
        {"source": "shop"},
    )
    assert json.loads(read.splitlines()[-1])["next"] == 2
    assert "id: 1\ndata: " in events
    assert "123456789012345678901234567890" in events
    assert "id: 0\n" not in events
    assert '"first_offset":0' in filed
    assert '"first_offset":1' in filed
    assert ranged.startswith("pictureHTTP/1.1 200")
    assert 'filename="cat.png"' in ranged
    assert resumed.endswith("hello large world")
    assert '"position":0,"next":2' in popping
    assert popping.count('"id":"orders/billing"') == 3
    assert '"id":0,"attempt":1' in working
    assert working.count('"changed":1') == 2
    assert '"done":1' in working
    answers = [json.loads(text) for text in retried.replace("}{", "}\n{").splitlines()]
    assert [answer["duplicate"] for answer in answers] == [False, True]
    assert json.loads(counted) == {"columns": ["n"], "types": ["int64"], "rows": [[3]]}
    assert '"queues":[{"name":"orders","first_offset":0,"next_offset":4' in live
    assert live.count("event: sample") >= 1
    assert '"subscribers":[{"name":"billing"' in live
    plan = json.loads(purging)
    assert (plan["groups"][0]["name"], plan["subscribers"][0]["name"]) == ("ship", "billing")
    assert json.loads(missing)["advice"] == "create it, or correct the name"
