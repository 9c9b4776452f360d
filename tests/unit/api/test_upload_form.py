import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from api.upload_form import UploadForm
from jobs.errors import InvalidValue, RequestRefused
from jobs.files import clean_filename

KIND = "multipart/form-data; boundary=x"


def form_of(content: bytes) -> bytes:
    return (
        b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n--x--\r\n"
    )


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@given(st.binary(), st.integers(1, 40))
def test_any_content_comes_through_however_the_body_is_cut(content: bytes, size: int) -> None:
    assume(b"--x" not in content)  # its sender would have chosen another boundary
    form = UploadForm(KIND)

    passed = b"".join(form.file_chunks(cut(form_of(content), size)))

    assert passed == content
    assert form.fields == {"purpose": "batch"}


@given(st.binary(max_size=300))
def test_any_bytes_are_a_form_or_are_refused(body: bytes) -> None:
    with pytest.raises(RequestRefused):
        list(UploadForm(KIND).file_chunks([b"--x\r\n" + body]))


@pytest.mark.parametrize("length", range(1, len(form_of(b"{}")) - 2))
def test_a_form_that_is_cut_off_anywhere_is_refused(length: int) -> None:
    with pytest.raises(InvalidValue, match=r"ends before|not valid"):
        list(UploadForm(KIND).file_chunks([form_of(b"{}")[:length]]))


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("in.jsonl", "in.jsonl"),
        ("/etc/passwd", "passwd"),
        ("C:\\data\\in.jsonl", "in.jsonl"),
        ("a\r\nb\x00\u202ec", "abc"),
        ("..", ".."),
        ("", "upload.jsonl"),
        ("a/", "a"),
        ("x" * 300, "x" * 255),
    ],
)
def test_a_file_name_is_only_its_last_printable_part(sent: str, kept: str) -> None:
    assert clean_filename(sent) == kept
