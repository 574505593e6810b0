"""Keys on the priority socket: each request needs its right, and a key that is revoked ends the connection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.jjq.access.keyed import keyed
from tests.jjq.http.priority_socket.wireclient import client_of

REQUESTS: dict[str, dict[str, Any]] = {
    "post": {"message": "x", "notify": ["sync"]},
    "fetch": {"work_timeout": 30},
    "pop": {},
    "finish": {"sequence": 10**6, "shard": 1},
    "create": {},
}
ALLOWED = {"push": {"post"}, "work": {"fetch", "pop", "finish"}, "admin": set(REQUESTS), "read": set()}


async def test_keys_scopes_sessions_signatures_and_revocation(tmp_path: Path) -> None:
    async with keyed(tmp_path) as web:
        admin = await web.make("admin")
        async with client_of(web.port, Authorization=f"Bearer {admin}") as client:
            await client.ask("create", queue="orders", label=1)
            assert (await client.reply())["notice"] == "ready"
        for key in ("", "Bearer jjq_0123456789abcdef_" + "0" * 64):
            with pytest.raises(InvalidStatus) as refused:
                async with client_of(web.port, Authorization=key):
                    pass
            assert refused.value.response.status_code == 401

        for right, allowed in ALLOWED.items():
            text = await web.make(f"{right}:orders")
            async with client_of(web.port, Authorization=f"Bearer {text}") as client:
                for kind, fields in REQUESTS.items():
                    await client.ask(kind, queue="orders", label=7, **fields)
                    denied = {"type": "error", "label": 7, "code": "PermissionDenied", "key": "orders"}
                    assert (await client.reply() != denied) == (kind in allowed)
                    await client.ask(kind, queue="others", label=7, **fields)
                    assert (await client.reply())["code"] == "PermissionDenied"
            status = await web.ask("GET", "/status/orders", Authorization=f"Bearer {text}")
            assert status.status == (403 if right == "push" else 200)

        # The id of a client belongs to its key.
        one, two = await web.make("work:orders", "push:orders"), await web.make("work:orders")
        async with client_of(web.port, Authorization=f"Bearer {one}", DURABLE_SESSION="1") as client:
            await client.ask("post", queue="orders", message="y", label=1, notify=["sync"])
            await client.reply()
            await client.ask("fetch", queue="orders", label=2, work_timeout=60)
            held = await client.reply()
        receipt = {"queue": "orders", "sequence": held["sequence"], "shard": held["shard"], "label": 3}
        async with client_of(
            web.port, Authorization=f"Bearer {two}", RECONNECT_AS=str(client.number)
        ) as thief:
            await thief.ask("finish", **receipt)
            assert (await thief.reply())["code"] == "PermissionDenied"
        async with client_of(
            web.port, Authorization=f"Bearer {one}", RECONNECT_AS=str(client.number)
        ) as again:
            await again.ask("finish", **receipt)
            assert (await again.reply())["notice"] == "finish"

            # A frame has no place for a signature.
            await web.ring.sign_queue("orders")
            await again.ask("post", queue="orders", message="z", label=4)
            assert (await again.reply())["code"] == "PermissionDenied"

            await again.ask("fetch", queue="orders", label=5, work_timeout=60, block_timeout=60)
            await web.ring.revoke(one.split("_")[1])
            async with asyncio.timeout(20):
                await again.connection.wait_closed()
            assert again.connection.close_code == 1008
