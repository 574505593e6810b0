"""What is particular to S3: buckets, prefixes, credentials, foreign objects, pages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from coldstore.objects.port import ObjectStore
from coldstore.objects.s3 import S3Objects
from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import SystemChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import Denied, InvalidInput, NotFound, Unavailable
from coldstore.shared.limits import KEY_CHARS_MAX
from tests.coldstore.objects.test_contract_list import TRICKY, fill, keys, storable
from tests.servers.faultproxy import FaultProxy
from tests.servers.s3 import S3Server
from tests.servers.waiting import free_ports

VERBS: list[Callable[[ObjectStore], object]] = [
    lambda objects: objects.get("key"),
    lambda objects: objects.get("key", 1, 1),
    lambda objects: objects.head("key"),
    lambda objects: objects.put("key", b"1"),
    lambda objects: objects.put_if_absent("key", b"1"),
    lambda objects: objects.put_if_match("key", b"1", '"etag"'),
    lambda objects: list(objects.list("")),
    lambda objects: objects.delete("key"),
]


@pytest.fixture(params=["moto", "seaweed"])
def server(request: pytest.FixtureRequest) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def prefix() -> str:
    return f"t-{SystemChance().token()}"


@pytest.fixture
def objects(server: S3Server, prefix: str) -> S3Objects:
    return server.objects(prefix)


def test_a_missing_bucket_is_told_by_every_verb(server: S3Server) -> None:
    with closing(S3Objects("no-such-bucket", "x", server.settings())) as objects:
        for use in VERBS:
            with pytest.raises(InvalidInput, match="bucket no-such-bucket does not exist; create it"):
                use(objects)


@pytest.mark.parametrize("wrong", [{"secret_key": "wrong"}, {"access_key": "nobody"}])
def test_wrong_credentials_are_told_by_every_verb(seaweed: S3Server, wrong: dict[str, str]) -> None:
    with closing(S3Objects(seaweed.bucket, "x", seaweed.settings(**wrong))) as objects:
        for use in VERBS:
            with pytest.raises(Denied, match="use credentials that have the right"):
                use(objects)


def test_missing_credentials_are_told_at_once(seaweed: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    with (
        closing(S3Objects(seaweed.bucket, "x", S3Settings(endpoint=seaweed.endpoint))) as objects,
        pytest.raises(Denied, match="Unable to locate credentials"),
    ):
        objects.get("key")


def test_credentials_come_from_the_environment(seaweed: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", seaweed.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", seaweed.secret_key)

    with closing(S3Objects(seaweed.bucket, "x", S3Settings(endpoint=seaweed.endpoint))) as objects:
        objects.put("key", b"1")

        assert objects.get("key").data == b"1"


def test_nobody_listening_is_unavailable_within_the_budget() -> None:
    clock = ManualClock()
    [port] = free_ports(1)
    settings = S3Settings(
        endpoint=f"http://127.0.0.1:{port}", access_key="a", secret_key="b", retry_seconds=3.0
    )
    with (
        closing(S3Objects("bucket", "x", settings, clock=clock)) as objects,
        pytest.raises(Unavailable, match=r"cannot read key: .*, for 3 s"),
    ):
        objects.get("key")
    assert 1 < clock.monotonic() <= 3


def test_a_server_that_speaks_no_tls_is_unavailable(proxy: FaultProxy) -> None:
    settings = S3Settings(
        endpoint=proxy.endpoint.replace("http", "https"), access_key="a", secret_key="b", retry_seconds=0
    )
    with closing(S3Objects("bucket", "x", settings)) as objects, pytest.raises(Unavailable, match="SSL"):
        objects.get("key")


def test_a_store_keeps_within_its_prefix(server: S3Server, prefix: str) -> None:
    objects, beside, below = (server.objects(prefix + more) for more in ("", "-b", "/below/"))
    for store, data in ((objects, b"1"), (beside, b"2"), (below, b"3")):
        store.put("key", data)

    assert keys(objects.list("")) == ["below/key", "key"]
    assert keys(beside.list("")) == keys(below.list("")) == ["key"]
    assert [store.get("key").data for store in (objects, beside, below)] == [b"1", b"2", b"3"]


def test_without_a_prefix_the_bucket_is_the_root(seaweed: S3Server, prefix: str) -> None:
    bucket, objects = seaweed.objects(""), seaweed.objects(prefix)
    objects.put("key", b"1")

    assert bucket.get(f"{prefix}/key").data == b"1"
    assert keys(bucket.list(prefix)) == [f"{prefix}/key"]
    assert f"{prefix}/key" in keys(bucket.list("", after=prefix[:-1]))


def test_key_and_prefix_together_are_as_long_as_s3_allows(seaweed: S3Server) -> None:
    objects = seaweed.objects("p" * 23)
    key = "/".join(["x" * 249] * 4) + "y"

    objects.put(key, b"longest")

    assert objects.get(key).data == b"longest"
    with pytest.raises(InvalidInput, match=f"S3 allows {KEY_CHARS_MAX}, root included"):
        objects.put(f"{key}z", b"")


def test_every_put_has_an_identity_of_its_own(objects: S3Objects, server: S3Server, prefix: str) -> None:
    objects.put_if_absent("one", b"1")
    objects.put("two", b"1")
    objects.put_if_match("two", b"2", objects.head("two").etag)

    with closing(server.client()) as client:
        found = [
            client.head_object(Bucket=server.bucket, Key=f"{prefix}/{key}")["Metadata"]["jjq-put"]
            for key in ("one", "two")
        ]
    assert len(set(found)) == 2
    assert all(len(put_id) == 32 for put_id in found)


def test_foreign_objects_and_folder_markers_are_not_listed(
    objects: S3Objects, server: S3Server, prefix: str
) -> None:
    objects.put("folder/key", b"1")
    with closing(server.client()) as client:
        for key in ("folder/", "empty/", "folder/a b", "folder/.hidden", "$folder$", "folder/ü"):
            client.put_object(Bucket=server.bucket, Key=f"{prefix}/{key}", Body=b"")

    assert keys(objects.list("")) == keys(objects.list("folder/")) == ["folder/key"]


def test_an_object_may_have_the_name_of_a_folder(objects: S3Objects) -> None:
    for key in ("a/x", "a", "a-b"):  # one by one: SeaweedFS loses the object if both come at once
        objects.put(key, key.encode())

    assert keys(objects.list("")) == ["a", "a-b", "a/x"]
    assert keys(objects.list("", after="a")) == ["a-b", "a/x"]
    assert objects.get("a").data == b"a"


def test_pages_of_any_size_list_the_same(server: S3Server, prefix: str) -> None:
    names = storable(TRICKY)
    fill(server.objects(prefix), names)
    for page_keys in (1, 2, 5):
        objects = server.objects(prefix, page_keys=page_keys)

        assert keys(objects.list("")) == names
        assert keys(objects.list("a", after="a-b/x")) == [k for k in names if k[0] == "a" and k > "a-b/x"]


def test_a_missing_object_is_not_found_once_the_bucket_is_known(objects: S3Objects) -> None:
    for _ in range(2):
        with pytest.raises(NotFound, match="key: no such object"):
            objects.head("key")
