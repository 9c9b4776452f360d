"""Log-probabilities in the two shapes in which OpenAI's endpoints write them."""

import codecs
from dataclasses import dataclass
from typing import Any

# What OpenAI writes for a token too unlikely to say how unlikely; JSON has no infinity.
LEAST = -9999.0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """content: the token's bytes, which may be half a character."""

    content: bytes
    logprob: float

    @property
    def text(self) -> str:
        """The token as text; bytes that are none are written out, so that no two look alike."""
        try:
            return self.content.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in self.content)

    @property
    def value(self) -> float:
        return max(self.logprob, LEAST)


@dataclass(frozen=True, slots=True)
class Place:
    """One token of an answer, and the best ones that could have stood there."""

    chosen: TokenLogprob
    top: tuple[TokenLogprob, ...]


def of_chat(places: list[Place]) -> dict[str, Any]:
    content = [
        _detail(place.chosen) | {"top_logprobs": [_detail(other) for other in place.top]}
        for place in places
    ]
    return {"content": content, "refusal": None}


def of_completion(places: list[Place]) -> dict[str, Any]:
    return {
        "tokens": [place.chosen.text for place in places],
        "token_logprobs": [place.chosen.value for place in places],
        "top_logprobs": [
            {other.text: other.value for other in (*place.top, place.chosen)} for place in places
        ],
        "text_offset": _offsets(places),
    }


def _detail(token: TokenLogprob) -> dict[str, Any]:
    return {"token": token.text, "logprob": token.value, "bytes": list(token.content)}


def _offsets(places: list[Place]) -> list[int]:
    """The characters of the answer's text that are complete before each token."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    offsets, length = [], 0
    for place in places:
        offsets.append(length)
        length += len(decoder.decode(place.chosen.content))
    return offsets
