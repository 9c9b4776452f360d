"""How long the tests of this folder are to run: short beside the others, long in `make chaos`."""

import os
from typing import Final

SEEDS: Final = int(os.environ.get("CHAOS_SEEDS", "0"))  # none named: the short forms

FULL: Final = SEEDS > 0


def full_or_short(full: int, short: int) -> int:
    """A count of `make chaos`, and of `make test`."""
    return full if FULL else short
