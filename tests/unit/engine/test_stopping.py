import pytest

from engine.incremental_text import IncrementalText
from engine.stopping import Stopping


def decode_bytes(tokens) -> str:
    """A tokenizer whose tokens are bytes: every other one has borders in fewer places."""
    return bytes(tokens).decode("utf-8", errors="replace")


def run(text: str, *, stop=(), stop_ids=frozenset(), max_tokens=1000):
    """Feed the text byte by byte; return how many bytes it took, why it ended, and its text."""
    stopping = Stopping(decode_bytes, max_tokens=max_tokens, stop_ids=stop_ids, stop=tuple(stop))
    tokens = list(text.encode())
    for number, token in enumerate(tokens, start=1):
        if reason := stopping.reason(token, number):
            return number, reason, stopping.cut(decode_bytes(stopping.shown(tokens[:number])))
    return None


def test_a_stop_string_across_token_borders_ends_the_text_before_it():
    assert run("one two END three", stop=["END"]) == (11, "stop", "one two ")


def test_the_first_stop_string_in_the_text_cuts_it():
    assert run("a b c", stop=["c", " b"]) == (3, "stop", "a")


def test_a_stop_string_of_several_byte_characters_is_found():
    assert run("naïve 日本語", stop=["本"]) == (13, "stop", "naïve 日")


def test_a_stop_string_that_only_begins_does_not_stop():
    assert run("EN EN EX", stop=["END"]) is None


def test_a_stop_string_before_half_a_character_in_one_token_stops_at_once():
    pieces = [b"to the E", b"ND\xf0", b"\x9f", b"\x99\x82"]

    def decode(tokens) -> str:
        return b"".join(pieces[token] for token in tokens).decode("utf-8", errors="replace")

    stopping = Stopping(decode, max_tokens=9, stop_ids=frozenset(), stop=("END",))

    assert [stopping.reason(token, token + 1) for token in (0, 1)] == [None, "stop"]
    assert stopping.cut(decode([0, 1])) == "to the "


def test_a_stop_token_ends_the_text_and_is_not_in_it():
    assert run("abc", stop_ids=frozenset(b"b")) == (2, "stop", "a")


def test_max_tokens_ends_with_length():
    assert run("abc", max_tokens=2) == (2, "length", "ab")


def test_a_stop_at_the_last_allowed_token_is_a_stop():
    assert run("abc", stop=["b"], max_tokens=2) == (2, "stop", "a")


@pytest.mark.parametrize("text", ["plain", "naïve café", "日本語 🙂🙂", "🙂"])
def test_incremental_text_never_gives_out_half_a_character(text):
    incremental = IncrementalText(decode_bytes)

    pieces = [incremental.push(token) for token in text.encode()]

    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_bytes_that_are_no_text_do_not_hold_it_back_forever():
    incremental = IncrementalText(decode_bytes)

    pieces = [incremental.push(token) for token in [0xFF] * 20 + [ord("a")]]

    assert sum(map(bool, pieces)) > 1
