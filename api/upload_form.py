"""Parses a multipart upload as it arrives, so that a file of any size passes through.

Not the framework's form parser, which writes the whole file to the disk before a route sees it.
"""

from collections.abc import Iterable, Iterator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from jobs.errors import InvalidValue, MissingParameter, UnknownParameter
from jobs.files import clean_filename

FILE = "file"
FILE_FIELDS = frozenset({"purpose", "expires_after[anchor]", "expires_after[seconds]"})

_MAX_FIELD_BYTES = 1024


class UploadForm:
    """One form.  Its fields are complete once the chunks of its file have all been read.

    file: the name of the part that holds the file; fields: those of the parts that may be beside.
    """

    def __init__(
        self, content_type: str, *, file: str = FILE, fields: frozenset[str] = FILE_FIELDS
    ) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            parts = " and ".join(f"'{name}'" for name in (file, *sorted(fields)[-1:]))
            raise InvalidValue(
                f"Send it as multipart/form-data, with {parts}.", param="Content-Type"
            )
        self._file, self._known = file, fields | {file}
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self._parser = self._parser_of(options[b"boundary"])
        self._name, self._value = bytearray(), bytearray()  # the header that is being read
        self._disposition = b""
        self._part = ""
        self._field = bytearray()
        self._file_bytes: list[bytes] = []
        self._ended = False

    def _parser_of(self, boundary: bytes) -> MultipartParser:
        try:
            return MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_headers,
                    "on_part_data": self._data,
                    "on_part_end": self._end_part,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise InvalidValue("The form's boundary is too long.", param="Content-Type") from error

    def file_chunks(self, body: Iterable[bytes]) -> Iterator[bytes]:
        """Read the whole body; yield the bytes of its file, as they come."""
        try:
            for chunk in body:
                self._parser.write(chunk)
                yield from self._file_bytes
                self._file_bytes.clear()
        except FormParserError as error:
            raise InvalidValue("The body is not valid multipart/form-data.") from error
        if not self._ended:
            raise InvalidValue("The body ends before its last boundary. Send all of it again.")
        if self.filename is None:
            raise MissingParameter(f"'{self._file}' is missing.", param=self._file)

    def _begin_part(self) -> None:
        self._disposition, self._part = b"", ""
        self._field.clear()

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._part = _text(options.get(b"name", b""))
        if self._part not in self._known:
            raise UnknownParameter(
                f"{self._part[:80]!r} is not a part of this form.", param=self._part[:80]
            )
        if self._part in self.fields or (self._part == self._file and self.filename is not None):
            raise InvalidValue(f"The part '{self._part}' came twice.", param=self._part)
        if self._part == self._file:
            self.filename = clean_filename(_text(options.get(b"filename", b"")))

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._part == self._file:
            self._file_bytes.append(data[start:end])
            return
        self._field += data[start:end]
        if len(self._field) > _MAX_FIELD_BYTES:
            raise InvalidValue(f"'{self._part}' is too long.", param=self._part)

    def _end_part(self) -> None:
        if self._part != self._file:
            self.fields[self._part] = _text(bytes(self._field))

    def _end(self) -> None:
        self._ended = True


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").replace("\x00", "\ufffd")
