import hashlib
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidEncoding, TooLarge
from jobs.file_check import FileCheck


def chunks(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(TEXT, st.integers(1, 9))
def test_any_text_passes_unchanged_and_is_counted_however_it_is_cut(text: str, size: int) -> None:
    content = text.encode()
    check = FileCheck(max_bytes=len(content))

    passed = b"".join(check.passing(chunks(content, size)))

    assert passed == content
    assert check.size == len(content)
    assert check.sha256 == hashlib.sha256(content).hexdigest()
    assert check.lines == len(BytesIO(content).readlines())


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2), (b"a\r\nb\r\n", 2)],
)
def test_lines_are_the_physical_ones(content: bytes, lines: int) -> None:
    check = FileCheck(max_bytes=100)

    list(check.passing([content]))

    assert check.lines == lines


@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_the_first_byte_that_is_not_text_is_named_however_the_file_is_cut(size: int) -> None:
    content = "aé€😀b".encode() + b"\xc3("

    with pytest.raises(InvalidEncoding, match="byte 11 "):
        list(FileCheck(max_bytes=100).passing(chunks(content, size)))


@pytest.mark.parametrize("size", [1, 2, 64])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_text_is_recognised(encoding: str, size: int) -> None:
    content = '{"a": 1}'.encode(encoding)

    with pytest.raises(InvalidEncoding, match="UTF-16"):
        list(FileCheck(max_bytes=100).passing(chunks(content, size)))


def test_half_a_character_at_the_end_is_not_text() -> None:
    with pytest.raises(InvalidEncoding):
        list(FileCheck(max_bytes=100).passing([b"ab\xe2\x82"]))


def test_no_chunk_beyond_the_limit_is_passed_on() -> None:
    passed: list[bytes] = []

    with pytest.raises(TooLarge):
        passed.extend(FileCheck(max_bytes=4).passing([b"abcd", b"e"]))

    assert passed == [b"abcd"]
