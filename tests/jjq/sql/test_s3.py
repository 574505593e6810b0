"""SQL over a cold store on S3: our own reader fetches ranges; in a cluster any node answers for all queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jjq
from coldstore.objects.port import Object
from coldstore.objects.s3 import S3Objects
from coldstore.shared.chance import SystemChance
from coldstore.shared.limits import BLOCK_BYTES_MIN
from tests.servers.jjq_server import JjqServer, together
from tests.servers.s3 import S3Server
from tests.servers.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster-processes")


def test_a_cluster_on_s3(tmp_path: Path, seaweed: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"JJQ_S3_ACCESS_KEY": seaweed.access_key, "JJQ_S3_SECRET_KEY": seaweed.secret_key}
    cold = f"s3://{seaweed.bucket}/sql-{SystemChance().token()}"
    flags = (
        "--cold",
        cold,
        "--s3-endpoint",
        seaweed.endpoint,
        "--s3-region",
        seaweed.region,
        "--journal",
        "s3",
    )
    nodes = [JjqServer(tmp_path / name, "--node", name, *flags, environment=keys) for name in ("n1", "n2")]
    with together(*nodes), jjq.connect(nodes[0].address) as one, jjq.connect(nodes[1].address) as two:
        one.create_queue("a", content="text", block_bytes=BLOCK_BYTES_MIN)
        alive = "SELECT node FROM jjq.nodes WHERE alive ORDER BY node"
        near: dict[str, Any] = {"cold": cold, "s3": seaweed.settings()}
        wait_until(
            lambda: [row["node"] for row in one.sql(alive, **near).to_pylist()] == ["n1", "n2"],
            "the nodes see each other",
            30,
        )
        for client, queue in ((one, "a"), (two, "b")):
            client.create_queue(queue, content="text", block_bytes=BLOCK_BYTES_MIN)
            client.push(queue, [f"{queue}{n}:{'x' * 200}" for n in range(1_000)])
            client.seal(queue)
            client.push(queue, ["tail"])
        both = """
            SELECT count(*) AS n, count(*) FILTER (WHERE a.value = 'tail') AS tails, min(b.value)[:2] AS first
            FROM a JOIN b USING (offset)
        """
        answer = [{"n": 1_001, "tails": 1, "first": "b0"}]
        for client in (one, two):
            assert client.sql(both).to_pylist() == answer
        assert two.sql(both, **near).to_pylist() == answer
        shards = "SELECT count(*) AS n, count(DISTINCT queue) AS q FROM jjq.shards"
        assert one.sql(shards).to_pylist() == one.sql(shards, **near).to_pylist() == [{"n": 2, "q": 2}]

        fetched: list[str] = []
        get = S3Objects.get

        def counted(self: S3Objects, key: str, start: int = 0, end: int | None = None) -> Object:
            if key.endswith(".parquet"):
                fetched.append(key)
            return get(self, key, start, end)

        monkeypatch.setattr(S3Objects, "get", counted)
        blocks = one.sql(
            "SELECT key FROM jjq.blocks WHERE queue = 'a' AND kind = 'final'", **near
        ).to_pylist()
        assert len(blocks) > 2
        assert not fetched
        assert one.sql("SELECT value[:2] AS v FROM a WHERE offset = 0", **near).to_pylist() == [{"v": "a0"}]
        assert set(fetched) == {blocks[0]["key"]}
