"""A queue verified in sections, in any order, is found to be what it is found to be in one go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coldstore.queue import sections, verify
from coldstore.queue.verify import Report
from coldstore.shared import limits
from tests.coldstore.making import Made
from tests.coldstore.queue.test_verify import DEFECTS, made

__all__ = ["made"]


def in_sections(made: Made, most: int) -> Report:
    """As a job does it: the last section first, and each with a files of its own."""
    planned = sections.plan(made.store.files("orders"), most)
    parts = {each: sections.check(made.store.files("orders"), each) for each in reversed(planned.sections)}
    files = made.store.files("orders")
    return verify.finish(
        files, verify.join_sections(files, planned, [parts[each] for each in planned.sections])
    )


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_a_sound_queue_gives_the_same_report(made: Made, most: int) -> None:
    assert in_sections(made, most) == made.store.verify("orders")
    assert len(sections.plan(made.store.files("orders"), most).sections) == -(-6 // most) + 1


@pytest.mark.parametrize("most", [1, 2, 4])
@pytest.mark.parametrize(("harm", "expected"), DEFECTS)
def test_each_defect_is_found_once_wherever_sections_end(
    made: Made, harm: Callable[[Made], None], expected: list[tuple[str, int | None]], most: int
) -> None:
    harm(made)
    report = in_sections(made, most)
    assert [(defect.kind, defect.block) for defect in report.defects] == expected
    whole = made.store.verify("orders")
    assert {(d.kind, d.key) for d in report.defects} == {(d.kind, d.key) for d in whole.defects}


def test_what_is_committed_merged_and_swept_after_the_plan_is_no_defect(made: Made) -> None:
    planned = sections.plan(made.store.files("orders"), 2)
    made.push(10)  # merges the young blocks
    made.push(10)
    made.clock.advance(limits.SWEEP_GRACE_SECONDS + 1)
    made.queue.sweep()
    files = made.store.files("orders")
    parts = [sections.check(files, each) for each in planned.sections]
    report = verify.finish(files, verify.join_sections(files, planned, parts))
    assert report.ok, report.defects


def test_progress_is_told_for_every_block(made: Made) -> None:
    told: list[int] = []
    files = made.store.files("orders")
    for each in sections.plan(files, 2).sections:
        sections.check(files, each, told.append)
    assert told == [block.stored_bytes for block in made.queue.list_blocks()]
