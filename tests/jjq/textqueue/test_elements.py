"""Items as elements and back: every well-formed file is the same again, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstore.shared.clock import SystemClock
from coldstore.shared.errors import InvalidInput
from jjq.textqueue import MalformedText
from jjq.textqueue.bridge import elements_of
from jjq.textqueue.elements import ElementPrinter, FileWalk, TextElement, imported_by, masked
from jjq.textqueue.file import TextFile
from jjq.textqueue.format import TextStatus, print_item
from tests.jjq.textqueue.test_format import ANY_BYTES, ITEM

BLANK = st.sampled_from([b"\n", b"\r\n", b"# comment\n\\v\n", b"# c\r\n", b"Tunknown\n x\n"])
WELL_FORMED = st.lists(
    st.one_of(BLANK, st.tuples(ITEM, st.booleans()).map(lambda i: print_item(*i[0], crlf=i[1]))), max_size=8
).map(b"".join)


def made_of(path: Path) -> list[TextElement]:
    file = TextFile(path, SystemClock())
    try:
        return list(elements_of(file, FileWalk("file"), path.stat().st_size))
    finally:
        file.close()


def exported(path: Path) -> bytes:
    """A file as elements, and these as a file again."""
    printer = ElementPrinter()
    found = b""
    for number, element in enumerate(made_of(path)):
        headers = {name: v if isinstance(v, bytes) else v.encode() for name, v in element.headers.items()}
        found += printer.print(number, element.value, headers).data
        assert element.end == len(found)
        place = imported_by(headers, "file")
        assert place is not None
        assert place.end == element.end
        assert imported_by(headers, "other") is None
    return found


@given(WELL_FORMED, st.booleans())
@settings(max_examples=200)
def test_every_well_formed_file_is_the_same_again(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "exported.tq"
    path.write_bytes(data[:-1] if cut and data.endswith(b"\n") else data)
    assert exported(path) == path.read_bytes()


@given(ANY_BYTES)
def test_any_bytes_are_the_same_again_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.tq"
    path.write_bytes(data)
    try:
        assert exported(path) == data
    except MalformedText:
        assert path.read_bytes() == data


@given(WELL_FORMED, WELL_FORMED)
def test_the_checksum_of_a_prefix_does_not_depend_on_how_it_was_passed(one: bytes, two: bytes) -> None:
    whole, parts = FileWalk("file"), FileWalk("file")
    whole.pass_by(one + two)
    parts.pass_by(one)
    parts.pass_by(two)
    assert (whole.end, whole.checksum) == (parts.end, parts.checksum)


def test_marks_and_variables_may_change_and_nothing_else() -> None:
    data = b"-a\n\\v  \n# c\n=b\n"
    assert masked(data) == masked(b"!a\n\\wxy\n# c\n-b\n")
    for other in (b"-b\n\\v  \n# c\n=b\n", b"#a\n\\v  \n# c\n=b\n", b"-a\n\\v \n# c\n=b\n"):
        assert masked(data) != masked(other)


def test_elements_that_were_pushed_by_others_are_messages() -> None:
    printer = ElementPrinter()
    assert printer.print(0, b"a\nb", {}).data == b"-a\n b\n"
    assert printer.print(1, "c", {"tq.1": b"two", "tq.0": b"one", "x": b"y"}).data == b"-c\n\\one\n\\two\n"
    assert printer.print(2, "d", {}, TextStatus.DONE) == (b"=d\n", 0, 3)
    assert printer.print(3, "e", {"tq.source": b"s", "tq.form": b"open", "tq.before": b"# c\n"}) == (
        b"# c\n-e",
        4,
        6,
    )
    assert printer.print(4, "f", {}) == (b"\n-f\n", 1, 4)
    with pytest.raises(InvalidInput, match="element 7 cannot be written"):
        printer.print(7, b"\xff", {})
    with pytest.raises(InvalidInput, match="element 8 cannot be written"):
        printer.print(8, b"a", {"tq.0": b"two\nlines"})


def test_long_comments_take_several_elements(tmp_path: Path) -> None:
    path = tmp_path / "long.tq"
    path.write_bytes(b"# " + b"x" * 9_000_000 + b"\n" + b"# line\n" * 1_000_000 + b"-a\n" + b"\n" * 5_000_000)
    made = made_of(path)
    assert [element.value for element in made if element.status is not None] == ["a"]
    assert max(len(element.headers.get("tq.before", b"")) for element in made) <= 4 << 20
    assert exported(path) == path.read_bytes()
