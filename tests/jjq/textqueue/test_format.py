"""The format, byte by byte: every value can be written and read again, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jjq.textqueue import MalformedText, TextQueue, TextStatus
from jjq.textqueue.format import parse_item, print_item

TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from("\n\r -=!#\\"), max_size=30)
VARIABLE = TEXT.map(lambda text: text.replace("\n", "").replace("\r", ""))
STATUS = st.sampled_from(list(TextStatus))
ITEM = st.tuples(STATUS, TEXT, st.lists(VARIABLE, max_size=3))
# Bytes that look like a text queue, and some that do not.
LINE = st.tuples(
    st.sampled_from([b"-", b"=", b"!", b"#", b" ", b"\\", b"", b"T"]), st.binary(max_size=6)
).map(b"".join)
ANY_BYTES = st.lists(LINE, max_size=8).map(b"\n".join) | st.binary(max_size=40)


def written(tmp: Path, data: bytes) -> Path:
    path = tmp / "queue.tq"
    path.write_bytes(data)
    return path


def read(path: Path, strict: bool = False) -> list[tuple[str, str, list[str]]]:
    """All items of a file that is at rest."""
    with TextQueue(path, quiet_seconds=0, report=lambda text: None, strict=strict) as queue:
        items = queue.items(done=True, critical=True, comments=True)
        return [(item.status.value, item.value, list(item.variables)) for item in items]


def fault_of(path: Path, strict: bool) -> MalformedText | None:
    try:
        read(path, strict)
    except MalformedText as error:
        return error
    return None


@given(ITEM, st.booleans())
def test_an_item_is_read_as_it_was_printed(item: tuple[TextStatus, str, list[str]], crlf: bool) -> None:
    status, value, variables = item
    data = print_item(status, value, variables, crlf=crlf)
    assert data.endswith(b"\n")
    content = parse_item(data[1:-1])
    assert (content.value, list(content.variables)) == (value, variables)
    assert not crlf or content.crlf


@given(st.lists(ITEM, max_size=6), st.booleans())
def test_a_file_is_read_as_it_was_printed(
    tmp_path_factory: pytest.TempPathFactory, items: list[tuple[TextStatus, str, list[str]]], crlf: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "printed.tq"
    path.write_bytes(b"".join(print_item(*item, crlf=crlf) for item in items))
    assert read(path) == [(status.value, value, variables) for status, value, variables in items]
    with TextQueue(path, quiet_seconds=0) as queue:
        queued = [item.value for item in queue]
        assert queued == [value for status, value, _ in items if status is TextStatus.QUEUED]
        found = []
        while (item := queue.get_next()) is not None:
            found.append(item.value)
        assert found == queued


@given(ANY_BYTES)
def test_any_bytes_are_items_or_an_error_with_a_place_and_stay_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.tq"
    path.write_bytes(data)
    for strict in (False, True):
        error = fault_of(path, strict)
        if error is not None:
            assert error.offset is not None
            assert error.line == data[: error.offset].count(b"\n") + 1
            assert f"line {error.line}, byte {error.offset}" in str(error)
            continue
        with TextQueue(path, quiet_seconds=0, strict=strict, report=lambda text: None) as queue:
            assert [item.value for item in queue] == [v for s, v, _ in read(path, strict) if s == "queued"]
    assert path.read_bytes() == data


@given(ANY_BYTES)
def test_any_file_whose_items_can_be_read_is_read_the_same_way_by_every_path(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    """The quick way over a block and the way by regular expression agree, also in one large block."""
    path = tmp_path_factory.getbasetemp() / "paths.tq"
    path.write_bytes(data)
    try:
        items = read(path)
    except MalformedText:
        return
    end = b"" if data.endswith(b"\n") or not data else b"\n"
    path.write_bytes(data + end + b"-end\n")
    assert len(read(path)) == len(items) + 1
    with TextQueue(path, quiet_seconds=0, report=lambda text: None) as queue:
        quick = [(item.status.value, item.value, list(item.variables)) for item in queue]
    assert quick == [item for item in read(path) if item[0] == "queued"]


@pytest.mark.parametrize(
    ("data", "items"),
    [
        (b"-a\r\n b\r\n\\v  \r\n\r\n=c\r\n", [("queued", "a\nb", ["v  "]), ("done", "c", [])]),
        (b"-a\n-last", [("queued", "a", []), ("queued", "last", [])]),
        (b"-", [("queued", "", [])]),
        (b"-\n", [("queued", "", [])]),
        (b"-a\n \n b\n", [("queued", "a\n\nb", [])]),
        (b"-  I have space padding  \n", [("queued", "  I have space padding  ", [])]),
        (b"-one\rtwo\n", [("queued", "one\rtwo", [])]),
        (b"# c\n  d\n\\v\n", [("comment", " c\n d", ["v"])]),
        (b"!a\n\n\n-b\n", [("critical", "a", []), ("queued", "b", [])]),
        (b"\xef\xbb\xbf-a\n", [("queued", "a", [])]),
        ("-é\n ☃\n\\ü\n".encode(), [("queued", "é\n☃", ["ü"])]),
        (b"T2024\n more\n\\v\n more\n-a\n", [("queued", "a", [])]),
        (b"", []),
        (b"\n\r\n\n", []),
    ],
)
def test_edge_cases(tmp_path: Path, data: bytes, items: list[tuple[str, str, list[str]]]) -> None:
    path = written(tmp_path, data)
    assert read(path) == items
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("data", "line", "offset", "said"),
    [
        (b" x\n", 1, 0, "continues no message"),
        (b"\\x\n", 1, 0, "variable of no message"),
        (b"-a\n\n x\n", 3, 4, "continues no message"),
        (b"-a\n\r\n\\x\n", 3, 5, "variable of no message"),
        (b"-a\n\\v\n x\n", 3, 6, "continues a variable"),
        (b"-a\n-\xff\n", 2, 4, "not UTF-8"),
        (b"-a\n\x00\x01\x02\n", 2, 3, "0x00"),
        (b"\x7fELF\x02\x01\n", 1, 0, "0x7f"),
    ],
)
def test_what_is_wrong_has_a_line_and_an_offset(
    tmp_path: Path, data: bytes, line: int, offset: int, said: str
) -> None:
    path = written(tmp_path, b"-good\n" + data if data[:1] not in b" \\" else data)
    shift = path.stat().st_size - len(data)
    with pytest.raises(MalformedText, match=said) as caught:
        read(path)
    assert (caught.value.line, caught.value.offset) == (line + bool(shift), offset + shift)
    assert isinstance(caught.value, ValueError)


def test_what_is_before_a_fault_is_handed_out_first(tmp_path: Path) -> None:
    path = written(tmp_path, b"-a\n-b\n\n x\n-c\n")
    with TextQueue(path, quiet_seconds=0) as queue:
        assert [queue.get_next().value for _ in range(2)] == ["a", "b"]  # type: ignore[union-attr]
        for _ in range(2):  # and again, until a person has corrected it
            with pytest.raises(MalformedText, match="line 4, byte 7"):
                queue.get_next()
        path.write_bytes(b"-a\n-b\n\n-x\n-c\n")
        assert [item.value for item in iter(queue.get_next, None)] == ["x", "c"]


def test_unknown_control_characters_are_told_once_and_refused_if_strict(tmp_path: Path) -> None:
    path = written(tmp_path, b"-a\nT1\n more\nT2\nU3\n-b\n")
    told: list[str] = []
    with TextQueue(path, quiet_seconds=0, report=told.append) as queue:
        assert [item.value for item in queue] == ["a", "b"]
        assert [item.value for item in queue] == ["a", "b"]
    assert ["'T'" in told[0], "'U'" in told[1], len(told)] == [True, True, 2]
    path.write_bytes(b"-a\nT1\n")
    with TextQueue(path) as queue, pytest.warns(UserWarning, match="begin with 'T'"):
        assert len(list(queue)) == 1
    with TextQueue(path, strict=True) as queue, pytest.raises(MalformedText, match="line 2, byte 3"):
        list(queue)


@pytest.mark.parametrize("value", [1, None, "\ud800", b"\xff"])
def test_a_value_that_is_no_text_is_refused_and_no_file_is_made(tmp_path: Path, value: object) -> None:
    with TextQueue(tmp_path / "new.tq") as queue, pytest.raises(MalformedText):
        queue.append(value)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variables", ["text", ["a\nb"], ["a\rb"], [3]])
def test_a_variable_that_is_no_line_is_refused(tmp_path: Path, variables: object) -> None:
    with TextQueue(tmp_path / "new.tq") as queue, pytest.raises(MalformedText):
        queue.append("value", variables)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
