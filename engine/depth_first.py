"""Says where a sequence stands in depth-first order of the prefix tree.

A place is a tuple that sorts, and it never changes while its sequence waits.  Every node has a
birthday, the number of the arrival that first passed through it.  Along a path birthdays change
where it branches off an older sequence's path: a place lists these branches from the root down,
each as (minus its depth, its birthday).  Of all that branches off one path the deepest then comes
first, and of siblings the eldest, which is depth-first order.

Those who come to an old node would overtake all who came after it was born.  So that nobody is
overtaken for ever, a node's birthday lapses after `patience` more sequences have started, and who
comes then gives it a new one.
"""

from collections.abc import Iterable
from typing import TypeAlias

from engine.prefix_tree import Node

Place: TypeAlias = tuple[tuple[int, int], ...]

PATIENCE = 1024


class DepthFirst:
    """patience: sequences that must have started, between once and twice so many, before a
    birthday lapses"""

    def __init__(self, patience: int = PATIENCE) -> None:
        self._patience = patience
        self._arrivals = 0
        self._lapsed = 1  # birthdays below this number
        self._lapses_next = 1
        self._started = 0

    def arrive(self, path: Iterable[Node]) -> Place:
        """The place of a new sequence with this path."""
        self._arrivals += 1
        branches = list[tuple[int, int]]()
        born = depth = 0
        for node in path:
            if node.born < self._lapsed:
                node.born = self._arrivals
            if node.born != born:
                born = node.born
                branches.append((-depth, born))
            depth += 1
        return (*branches, (-depth, self._arrivals))

    def start(self) -> None:
        """A sequence begins to run for the first time."""
        self._started += 1
        if self._started % self._patience == 0:
            self._lapsed, self._lapses_next = self._lapses_next, self._arrivals + 1
