"""Builds a tokenizer of SentencePiece's kind, of pieces with scores: Llama 2's, Mistral's, Gemma's.

SentencePiece joins, over and over, the two neighbours whose joint piece has the best score.  The
`tokenizers` library joins by a list of pairs, best first: so here are all the pairs that make up a
piece, by its score.  What no piece covers becomes bytes.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers

from engine.weights.gguf_file import GgufFile

# tokenizer.ggml.token_type
NORMAL = 1

SPACE = "\u2581"


def sentencepiece_backend(file: GgufFile, tokens: Sequence[str]) -> Backend:
    """Without its added tokens."""
    scores = file.require("tokenizer.ggml.scores")
    types = file.require("tokenizer.ggml.token_type")
    pieces = {
        token: score
        for token, score, kind in zip(tokens, scores, types, strict=True)
        if kind == NORMAL
    }
    backend = Backend(
        models.BPE(
            vocab={token: index for index, token in enumerate(tokens)},
            merges=list(_merges(pieces)),
            unk_token=tokens[file.get("tokenizer.ggml.unknown_token_id", 0)],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    leads = adds_leading_space(file)
    spaces = normalizers.Replace(" ", SPACE)
    backend.normalizer = (
        normalizers.Sequence([normalizers.Prepend(SPACE), spaces]) if leads else spaces
    )
    backend.decoder = _decoder(strips=leads)
    return backend


def adds_leading_space(file: GgufFile) -> bool:
    return bool(file.get("tokenizer.ggml.add_space_prefix", True))


def _decoder(*, strips: bool) -> Any:
    parts = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)] if strips else parts)


def _merges(pieces: dict[str, float]) -> Iterator[tuple[str, str]]:
    """All pairs of pieces that make up a piece, by its score, the best first."""
    for piece in sorted(pieces, key=pieces.__getitem__, reverse=True):
        for cut in range(1, len(piece)):
            if piece[:cut] in pieces and piece[cut:] in pieces:
                yield piece[:cut], piece[cut:]
