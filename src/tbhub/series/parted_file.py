"""A file whose bytes stand in parts, one after the other: segments, or a single object of a bucket.

What the parts are is told from outside, by a listing: looking costs nothing here. Bytes are asked
for by ranges, and as few times as can be: whoever asks for bytes before the place he has come to,
to see whether they are what they were, is given them together with what has come since, which is
then at hand. So growth costs one request for each part that has grown.

Only the last part may be replaced, by a longer one. Any other change makes it another file.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tbhub._kernel import Decoder
from tbhub.series.growing_file import Look

_AHEAD = 4 << 20  # bytes of one request
_AT_ONCE = 8  # requests whose answers are waited for together
_KEPT = 4096  # last bytes that are at hand, and that a proof may hold


class Part(NamedTuple):
    """One part, as it was listed; equal versions mean equal bytes."""

    name: str
    size: int
    version: str
    modified: float


class Span(NamedTuple):
    """Bytes of a part."""

    name: str
    offset: int
    size: int


Reader = Callable[[Sequence[Span]], Iterator[bytes]]


class PartedFile:
    """Parts that are one file to readers."""

    def __init__(
        self,
        path: str,
        parts: Sequence[Part],
        reader: Reader,
        read_again: Callable[[Part, int, int], bytes],
    ) -> None:
        """`reader` reads what is new, `read_again` what is looked at time and again."""
        self.path = path
        self.parts = tuple(parts)
        self._reader = reader
        self._read_again = read_again
        self._times_replaced = 0
        self._at = 0  # where what is at hand begins
        self._at_hand = b""

    def update(self, parts: Sequence[Part]) -> None:
        """The parts are these now."""
        if _is_other(self.parts, parts):
            self._times_replaced += 1
        if [part[:3] for part in self.parts] != [part[:3] for part in parts]:
            self._at_hand = b""
        self.parts = tuple(parts)

    def look(self) -> Look:
        parts = self.parts
        return Look(
            sum(part.size for part in parts),
            tuple((part.size, part.version) for part in parts),
            self._times_replaced,
            max((part.modified for part in parts), default=0.0),
        )

    def ends_at(self, places: list[tuple[int, int]]) -> list[bytes]:
        return [self._take(at, size) for at, size in places]

    def feed(self, decoder: Decoder, end: int) -> None:
        start = decoder.offset
        held = self._take_at_hand(start, end)
        last = self._take_at_hand(max(self._at, start - _KEPT), start)
        for data in [held] if held else self._pieces(start, min(end, start + _AT_ONCE * _AHEAD)):
            decoder.feed(data)
            last = (last + data if len(data) < _KEPT else data)[-_KEPT:]
        # These are asked for next.
        self._at, self._at_hand = decoder.offset - len(last), last

    def read(self, offset: int, size: int) -> bytes:
        """Bytes at any place; may be called from any thread."""
        found = []
        for part, start, wanted in self._located(offset, offset + size):
            found.append(self._read_again(part, start, wanted))
        return b"".join(found)

    def proof(self, size: int, pending: int, look: Look) -> Mapping[str, Any] | None:
        if size != look.size or look != self.look() or pending > _KEPT - 64:
            return None  # there is more already: it will be asked again
        start = max(0, size - pending - 64)
        last = self._take_at_hand(start, size)
        if len(last) < size - start:
            return None
        return {
            "parts": [(part.size, part.version) for part in self.parts],
            "last": b64encode(last).decode(),
        }

    def proves(self, about: Mapping[str, Any], look: Look) -> bool:
        known = [Part("", size, version, 0.0) for size, version in about["parts"]]
        size: int = about["size"]
        if _is_other(known, self.parts) or look.size < size:
            return False
        last = b64decode(about["last"])
        start = size - len(last)
        of_last, now = known[-1:], self.parts[len(known) - 1 : len(known)]
        if [each[1:3] for each in of_last] != [each[1:3] for each in now]:
            if look.size == size:
                return False  # written to, and not grown
            return self._take(start, len(last)) == last
        self._at, self._at_hand = start, last
        return True

    def _take(self, at: int, size: int) -> bytes:
        """Bytes at a place, if need be with what follows."""
        if size == 0:
            return b""
        found = self._take_at_hand(at, at + size)
        if len(found) < size:
            end = min(sum(part.size for part in self.parts), at + max(size, _AHEAD))
            self._at, self._at_hand = at, b"".join(self._pieces(at, end))
            found = self._at_hand[:size]
        return found

    def _take_at_hand(self, start: int, end: int) -> bytes:
        if not self._at <= start < min(end, self._at + len(self._at_hand)):
            return b""
        return self._at_hand[start - self._at : end - self._at]

    def _located(self, start: int, end: int) -> Iterator[tuple[Part, int, int]]:
        """The parts that hold the bytes from one offset to another, and where in them."""
        at = 0
        for part in self.parts:
            first, last = max(start, at), min(end, at + part.size)
            if first < last:
                yield part, first - at, last - first
            at += part.size

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes from one offset to another, as far as they are there."""
        spans = self._spans(start, end)
        for span, data in zip(spans, self._reader(spans), strict=False):
            yield data
            if len(data) < span.size:
                return  # what was listed is not there, or not yet; what follows is elsewhere

    def _spans(self, start: int, end: int) -> list[Span]:
        return [
            Span(part.name, at, min(_AHEAD, offset + size - at))
            for part, offset, size in self._located(start, end)
            for at in range(offset, offset + size, _AHEAD)
        ]


def _is_other(before: Sequence[Part], now: Sequence[Part]) -> bool:
    """Whether parts have changed otherwise than by growing."""
    if len(now) < len(before):
        return True
    same = zip(before[:-1], now, strict=False)
    if any((was.size, was.version) != (part.size, part.version) for was, part in same):
        return True
    return bool(before) and now[len(before) - 1].size < before[-1].size
