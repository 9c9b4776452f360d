"""Python's collector of cyclic garbage, set for a process that lives long and makes many objects.

Its usual settings walk what the imports made, some 100,000 objects, over and over, and begin a walk
for each 700 objects more: a fifth of the CPU time of a worker that answers 10,000 lines a second.
"""

import gc

# Objects that wait for a first walk.  Few cycles are made here, so little memory waits with them.
_THRESHOLD = 5_000


def spare_what_stays() -> None:
    """Call it once, when all is imported and put together."""
    gc.freeze()
    gc.set_threshold(_THRESHOLD, 10, 10)
