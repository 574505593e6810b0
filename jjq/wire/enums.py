"""Enums of the wire and the words of the stores for them; 0 stands for a default, unknown is refused."""

from __future__ import annotations

from typing import Final, Generic, TypeVar, get_args

from coldstore.shared.batch import Content
from coldstore.shared.errors import InvalidInput, check
from coldstore.shared.results import STAGES, Stage
from jjq.v1 import jjq_pb2 as pb

Word = TypeVar("Word", bound=str)


class WireEnum(Generic[Word]):
    """One enum: words by number and numbers by word."""

    def __init__(self, name: str, words: dict[int, Word], default: Word | None) -> None:
        self._name = name
        self._words = words
        self._numbers = {word: number for number, word in words.items()}
        if default is not None:
            self._words = {0: default, **words}

    def word(self, number: int) -> Word:
        """The word for a number that came over the wire."""
        try:
            return self._words[number]
        except KeyError:
            known = ", ".join(f"{word} = {number}" for word, number in self._numbers.items())
            raise InvalidInput(f"{self._name} {number} is not known: use {known}") from None

    def number(self, word: Word) -> int:
        """The number for a word of ours, or of a caller who may have mistyped it."""
        try:
            return self._numbers[word]
        except KeyError:
            known = ", ".join(self._numbers)
            raise InvalidInput(f"{self._name} {word!r} is not known: use one of {known}") from None

    def words(self) -> set[str]:
        return set(self._numbers)


CONTENT: Final = WireEnum[Content](
    "content",
    {
        pb.CONTENT_BYTES: "bytes",
        pb.CONTENT_TEXT: "text",
        pb.CONTENT_JSON: "json",
        pb.CONTENT_LEDGER: "ledger",
    },
    "bytes",
)
STAGE: Final = WireEnum[Stage](
    "stage",
    {
        pb.STAGE_READY: "ready",
        pb.STAGE_WRITTEN: "written",
        pb.STAGE_SYNCED: "synced",
        pb.STAGE_COLD: "cold",
    },
    "synced",
)
FORM: Final = WireEnum[str]("form", {pb.FORM_ELEMENTS: "elements", pb.FORM_ARROW: "arrow"}, "elements")
BLOCK: Final = WireEnum[str](
    "block kind",
    {
        pb.BLOCK_KIND_HOT_HOT: "hot-hot",
        pb.BLOCK_KIND_SEALING: "sealing",
        pb.BLOCK_KIND_YOUNG: "young",
        pb.BLOCK_KIND_FINAL: "final",
    },
    None,
)

check(CONTENT.words() == set(get_args(Content)), "every content has a number")
check(STAGE.words() == set(STAGES), "every stage has a number")
