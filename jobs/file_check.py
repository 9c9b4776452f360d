"""Counts, hashes and judges the bytes of a file while they pass."""

import codecs
import hashlib
from collections.abc import Iterable, Iterator

from jobs.errors import InvalidEncoding, TooLarge

_HEAD = 4  # bytes, enough to tell a file's encoding by
_BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_GZIP = b"\x1f\x8b"


class FileCheck:
    """`size`, `lines` and `sha256` are the file's once `passing` is exhausted.

    Without `text`, bytes of any kind pass, and are counted and hashed alone.
    """

    def __init__(self, *, max_bytes: int, text: bool = True, param: str = "file") -> None:
        self.size = 0
        self._max_bytes = max_bytes
        self._text = text
        self._param = param
        self._line_feeds = 0
        self._last = b"\n"
        self._sha256 = hashlib.sha256()
        self._head = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    @property
    def lines(self) -> int:
        """Physical lines; a last one needs no line feed."""
        return self._line_feeds + (self._last != b"\n")

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    def passing(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same bytes.  Raises TooLarge or InvalidEncoding at the byte that is too much."""
        for chunk in _begun(chunks):
            self._count(chunk)
            if self._text:
                self._check_text(chunk)
            yield chunk
        self._decode(b"", final=True)

    def _check_text(self, chunk: bytes) -> None:
        # UTF-16 without a mark is valid UTF-8 where the text is plain: every other byte is 0.
        self._head = self._head or chunk[:_HEAD]
        if b"\x00" in self._head:
            raise InvalidEncoding(_not_utf8(self._head, 0), param=self._param)
        self._decode(chunk)

    def _count(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.size > self._max_bytes:
            message = f"'{self._param}' has over {self._max_bytes:,} bytes. Split it."
            raise TooLarge(message, param=self._param)
        self._sha256.update(chunk)
        self._line_feeds += chunk.count(b"\n")
        self._last = chunk[-1:] or self._last

    def _decode(self, chunk: bytes, *, final: bool = False) -> None:
        try:
            self._decoder.decode(chunk, final)
        except UnicodeDecodeError as error:
            # Counted from what the decoder was given: this chunk, and what it held of the last.
            at = max(0, self.size - len(error.object) + error.start)
            raise InvalidEncoding(_not_utf8(self._head, at), param=self._param) from error


def _begun(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes; the first chunk is long enough to tell the encoding by, if there are so many.

    A refusal must name the encoding before anything is decoded.
    """
    rest, first = iter(chunks), b""
    for chunk in rest:
        first += chunk
        if len(first) >= _HEAD:
            break
    yield first
    yield from rest


def _not_utf8(head: bytes, at: int) -> str:
    if head.startswith(_GZIP):
        return "The file is compressed with gzip. Unpack it and upload it again."
    if head.startswith(_BYTE_ORDER_MARKS) or b"\x00" in head:
        return "The file looks like UTF-16. Save it as UTF-8 and upload it again."
    return f"The file is not UTF-8: byte {at:,} is not text. Save it as UTF-8 and upload it again."
