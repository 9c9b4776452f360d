"""The bytes that one token stands for.

Decoding a single token cannot tell: half a character decodes to U+FFFD.  A vocabulary writes its
bytes down in one of two ways, GPT-2's alphabet or SentencePiece's, and its decoder says in which.
"""

import json
import re
from functools import cached_property
from typing import Any

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "\u2581"  # how SentencePiece writes one


class TokenBytes:
    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def of(self, token_id: int) -> bytes:
        """Empty for an id that has no token: a model may have more rows than its vocabulary."""
        token = self._backend.id_to_token(token_id)
        if token is None:
            return b""
        if token_id in self._added:
            return bytes(token.encode())
        if self._is_byte_level:
            return b"".join(_BYTES.get(character, character.encode()) for character in token)
        if match := _BYTE_TOKEN.fullmatch(token):
            return bytes([int(match[1], 16)])
        return bytes(token.replace(_SPACE, " ").encode())

    @cached_property
    def _added(self) -> frozenset[int]:
        return frozenset(self._backend.get_added_tokens_decoder())

    @cached_property
    def _is_byte_level(self) -> bool:
        return "ByteLevel" in json.dumps(json.loads(self._backend.to_str())["decoder"])


def _alphabet() -> dict[str, bytes]:
    """GPT-2's: printable bytes stand for themselves, the others for characters from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    written = {chr(byte): bytes([byte]) for byte in printable}
    return written | {chr(256 + place): bytes([byte]) for place, byte in enumerate(others)}


_BYTES = _alphabet()
