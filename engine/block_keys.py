"""Names for what a KV-cache block holds.

The K and V of a block depend on the model, on the adapter that changes its weights, on the salt
that keeps tenants apart, and on every token up to the block's end.  A key is a hash of exactly
these: chained, so that one key stands for all that came before, and typed and length-prefixed, so
that no field can pass for another.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b

KEY_BYTES = 16


def root_key(*, model: bytes, adapter: str, salt: str) -> bytes:
    """The parent of every first block computed by this model so adapted under this salt.

    adapter: empty for the model as it is
    """
    return _hash((b"model", model), (b"adapter", _encode(adapter)), (b"salt", _encode(salt)))


def child_key(parent: bytes, content: bytes) -> bytes:
    """The key of the block that holds `content` (see `pack`) after everything `parent` names."""
    return _hash((b"parent", parent), (b"tokens", content))


def pack(tokens: Sequence[int]) -> bytes:
    """A block's tokens as bytes: what is hashed, and what is compared on a hit."""
    return array("q", tokens).tobytes()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _hash(*fields: tuple[bytes, bytes]) -> bytes:
    digest = blake2b(digest_size=KEY_BYTES)
    for name, value in fields:
        digest.update(b"%d:%b%d:%b" % (len(name), name, len(value), value))
    return digest.digest()
