"""URLs name stores; what names none is refused with the forms that do."""

from __future__ import annotations

from pathlib import Path

import pytest

from coldstore.objects.open import open_objects
from coldstore.objects.port import ObjectStore
from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import SeededChance
from coldstore.shared.clock import ManualClock
from coldstore.shared.errors import InvalidInput


def opened(url: str, **more: S3Settings) -> ObjectStore:
    return open_objects(url, clock=ManualClock(), chance=SeededChance(1), **more)


@pytest.mark.parametrize("form", ["file://{}", "file://localhost{}", "{}"])
def test_a_folder_is_opened_by_url_or_path(form: str, tmp_path: Path) -> None:
    objects = opened(form.format(tmp_path / "store"))

    objects.put("key", b"1")

    assert repr(objects) == (tmp_path / "store").as_uri()
    assert (tmp_path / "store" / "key").read_bytes() == b"1"


def test_a_folder_with_spaces_is_written_with_percent_signs_in_a_url_only(tmp_path: Path) -> None:
    opened((tmp_path / "my store").as_uri()).put("key", b"1")
    opened(str(tmp_path / "my%20store")).put("key", b"2")

    assert (tmp_path / "my store" / "key").read_bytes() == b"1"
    assert (tmp_path / "my%20store" / "key").read_bytes() == b"2"


def test_a_relative_path_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    objects = opened("store")
    monkeypatch.chdir("/")

    objects.put("key", b"1")

    assert (tmp_path / "store" / "key").read_bytes() == b"1"


def test_opening_a_folder_creates_nothing(tmp_path: Path) -> None:
    opened(str(tmp_path / "store"))

    assert list(tmp_path.iterdir()) == []


def test_memory_is_a_new_store_each_time() -> None:
    first, second = opened("memory:"), opened("memory:")

    first.put("key", b"1")

    assert [info.key for info in first.list("")] == ["key"]
    assert list(second.list("")) == []


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("s3://my-bucket", "s3://my-bucket/"),
        ("s3://my-bucket/", "s3://my-bucket/"),
        ("s3://my-bucket/some/prefix", "s3://my-bucket/some/prefix/"),
        ("s3://my-bucket/some/prefix/", "s3://my-bucket/some/prefix/"),
    ],
)
def test_a_bucket_is_opened_with_its_prefix(url: str, root: str) -> None:
    assert repr(opened(url, s3=S3Settings(region="us-east-1"))) == root


@pytest.mark.parametrize(
    "url",
    ["", " ", "s3://", "s3:bucket", "s3://B/x", "s3://ab", "s3a://bucket/x", "gs://bucket", "http://host/x",
     "file://host/dir", "file:dir", "s3://bucket?x=1", "s3://bucket/x#y", "memory:x", "a\0b"],
)  # fmt: skip
def test_what_names_no_store_is_refused_with_the_forms_that_do(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"names no store: use s3://BUCKET/PREFIX, file:///FOLDER"):
        opened(url)


@pytest.mark.parametrize(
    "url", ["s3://bucket/../x", "s3://bucket/a//b", "s3://bucket/.hidden", "s3://bucket/a b"]
)
def test_a_prefix_that_no_store_could_list_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="is not allowed"):
        opened(url)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInput, match="must not hold credentials") as refused:
        opened("s3://AKIA:hunter2@bucket/x")

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint": "localhost:8333"},
        {"endpoint": "ftp://host"},
        {"endpoint": "http://"},
        {"endpoint": "http://me:hunter2@host"},
        {"addressing": "dns"},
        {"access_key": "only"},
        {"secret_key": "hunter2"},
        {"read_seconds": 0},
        {"retry_seconds": -1},
        {"connections": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="S3") as refused:
        S3Settings(**wrong)  # type: ignore[arg-type]
    assert "hunter2" not in str(refused.value)


def test_settings_do_not_show_their_secrets() -> None:
    settings = S3Settings(access_key="AKIA", secret_key="hunter2", session_token="hunter3")

    assert "hunter" not in repr(settings)
    assert "AKIA" not in repr(settings)
