"""The documents: every bit counts, and only what makes sense is believed."""

from __future__ import annotations

import pytest

from coldstore.layout import paths, sealed_json
from coldstore.objects.memory import MemoryObjects
from coldstore.shared.errors import Conflict, DataLoss, InvalidInput, NotFound
from hotstore.queue.owners import QueueState
from sharding.documents import queue_state, shards, tenure
from sharding.documents.shards import Range, Shards
from sharding.documents.tenure import OrphanJournal, Tenure

SHARDS = Shards("orders", "0" * 32, 3, "n1", 2, "s.json", (Range(0, 5, "n2"),), 7)
TENURE = Tenure("n1", 6, 5, "f" * 32, "s3", "ended", 80, (OrphanJournal(1, 4, 0, 9),), "n2", 12)


def test_documents_come_back_as_they_were_put() -> None:
    assert shards.decode(shards.encode(SHARDS), "orders") == SHARDS
    assert tenure.decode(tenure.encode(TENURE), paths.tenure("n1")) == TENURE


def test_a_flipped_bit_is_noticed() -> None:
    for data in (shards.encode(SHARDS), tenure.encode(TENURE)):
        for at in range(0, len(data), 7):
            bad = bytearray(data)
            bad[at] ^= 1
            with pytest.raises((DataLoss, InvalidInput)):
                shards.decode(bytes(bad), "orders")
            with pytest.raises((DataLoss, InvalidInput)):
                tenure.decode(bytes(bad), paths.tenure("n1"))


@pytest.mark.parametrize(
    "change", [{"epoch": 0}, {"run": 0}, {"owner": "a/b"}, {"ranges": [[5, 5, "n2"]]}, {"ranges": [[1]]}]
)
def test_a_shards_document_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    fields = sealed_json.unseal(shards.encode(SHARDS), "k", 1) | change
    with pytest.raises(DataLoss):
        shards.decode(sealed_json.seal(fields, 1), "orders")


@pytest.mark.parametrize("change", [{"node": "other"}, {"since": 9}, {"since": 0}, {"estates": [[1]]}])
def test_a_tenure_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    fields = sealed_json.unseal(tenure.encode(TENURE), "k", 1) | change
    with pytest.raises(DataLoss):
        tenure.decode(sealed_json.seal(fields, 1), paths.tenure("n1"))


def test_a_change_is_made_again_if_another_came_first() -> None:
    objects = MemoryObjects()
    shards.create(objects, SHARDS)
    calls: list[int] = []

    def raised(now: Shards) -> Shards:
        if not calls:
            found = shards.read(objects, "orders")
            assert found is not None
            shards.swap(objects, found, found.shards.moved("n2", 1, None))
        calls.append(now.epoch)
        return now.moved("n3", 1, None)

    assert shards.change(objects, "orders", raised).epoch == 5
    assert calls == [3, 4]
    found = shards.read(objects, "orders")
    assert found is not None
    shards.swap(objects, found, found.shards)
    with pytest.raises(Conflict):
        shards.swap(objects, found, found.shards)
    with pytest.raises(NotFound):
        shards.change(objects, "nothing", raised)


def test_a_state_is_named_by_its_content() -> None:
    objects = MemoryObjects()
    what = QueueState(5, 17, [["s", "end", False, 1, 2, 3, True]], [["p", [[0, 4, 1, 17]]]])
    name = queue_state.put(objects, "orders", 4, what)
    assert queue_state.put(objects, "orders", 4, what) == name
    assert queue_state.read(objects, "orders", name) == what
    assert queue_state.read(objects, "orders", None) == QueueState()
    objects.put(paths.state("orders", name), b"{}")
    with pytest.raises(DataLoss):
        queue_state.read(objects, "orders", name)
    with pytest.raises(DataLoss):
        queue_state.read(objects, "orders", "00000000000000000009-00.json")


def test_a_run_is_over_when_its_tenure_is() -> None:
    assert [TENURE.is_over(run) for run in (4, 5, 6, 7)] == [True, True, True, False]
    going_on = Tenure("n1", 6, 5, "f" * 32, "s3")
    assert [going_on.is_over(run) for run in (4, 5, 6, 7)] == [True, False, False, False]
