"""Tokenizers of SentencePiece's kind from a GGUF, against joining pieces by score by hand."""

from itertools import pairwise

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.gguf_tokenizer import load_gguf_tokenizer
from engine.weights.gguf_file import GgufFile

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
SPACE = "\u2581"
# Best first; each has two parts that are pieces too.
JOINED = ["he", "ll", SPACE + "w", "hell", "or", SPACE + "wor", "lo", "hello", SPACE + "he", "wo"]
LETTERS = [SPACE, "h", "e", "l", "o", "w", "r"]
TOKENS = [
    ("<unk>", UNKNOWN, 0.0),
    ("<s>", CONTROL, 0.0),
    ("</s>", CONTROL, 0.0),
    *((f"<0x{byte:02X}>", BYTE, 0.0) for byte in range(256)),
    *((piece, NORMAL, -float(rank)) for rank, piece in enumerate(JOINED, start=1)),
    *((letter, NORMAL, -100.0 - rank) for rank, letter in enumerate(LETTERS)),
]
IDS = {token: index for index, (token, *_) in enumerate(TOKENS)}
SCORES = {token: score for token, kind, score in TOKENS if kind == NORMAL}


def write(path, *, tokens=TOKENS, **flags):
    """The metadata alone: a tokenizer needs no tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token for token, *_ in tokens])
    writer.add_token_types([kind for _, kind, _ in tokens])
    writer.add_token_scores([score for *_, score in tokens])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, flag in flags.items():
        getattr(writer, name)(flag)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return load_gguf_tokenizer(GgufFile(path))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return write(tmp_path_factory.mktemp("gguf") / "model.gguf")


def joined_by_hand(text):
    """Join the two neighbours whose joint piece has the best score, until none has one."""
    pieces = list(SPACE + text.replace(" ", SPACE)) if text else []
    while True:
        pairs = [(SCORES.get(a + b), -i) for i, (a, b) in enumerate(pairwise(pieces))]
        found = [pair for pair in pairs if pair[0] is not None]
        if not found:
            break
        place = -max(found)[1]
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
    return [i for piece in pieces for i in ids_of(piece)]


def ids_of(piece):
    if piece in SCORES:
        return [IDS[piece]]
    return [IDS[f"<0x{byte:02X}>"] for byte in piece.encode()]


texts = st.text(alphabet="helowr \né🙂", max_size=24)


@settings(max_examples=200, deadline=None)
@given(texts)
def test_pieces_are_joined_by_score_and_the_rest_becomes_bytes(tokenizer, text):
    [ids] = tokenizer.encode([text], add_special_tokens=False)

    assert ids == joined_by_hand(text)


@settings(max_examples=100, deadline=None)
@given(texts)
def test_what_was_encoded_decodes_to_itself(tokenizer, text):
    [ids] = tokenizer.encode([text], add_special_tokens=True)

    assert ids[0] == IDS["<s>"]
    assert tokenizer.decode(ids) == text


def test_a_token_knows_its_bytes(tokenizer):
    assert tokenizer.bytes_of(IDS[SPACE + "wor"]) == b" wor"
    assert tokenizer.bytes_of(IDS["<0xC3>"]) == b"\xc3"


def test_without_a_leading_space_none_is_added_and_runs_of_spaces_are_pieces(tmp_path):
    tokens = [*TOKENS, (SPACE * 3, USER_DEFINED, 0.0)]
    tokenizer = write(tmp_path / "gemma.gguf", tokens=tokens, add_add_space_prefix=False)

    [ids] = tokenizer.encode(["hello   he"], add_special_tokens=False)

    assert ids == [IDS["hello"], len(TOKENS), IDS["he"]]
    assert tokenizer.decode(ids) == "hello   he"


def test_a_file_may_want_no_token_before_a_text(tmp_path):
    tokenizer = write(tmp_path / "model.gguf", add_add_bos_token=False)

    [ids] = tokenizer.encode(["he"], add_special_tokens=True)

    assert ids == [IDS[SPACE + "he"]]
