"""Prefixes that more sequences are expected to begin with, and how many more.

Whoever has the backlog knows what is still to come.  Each expectation pins its path in the tree, so
that its blocks are the last to go of those that no sequence uses; every sequence that comes with
the prefix uses one up, and with the last the pin goes.  It goes too when the prefix's last block is
evicted: somebody needed the room.  So a caller may leave an expectation that will not come true.
"""

from collections.abc import Sequence

from engine.prefix_tree import Node, PrefixTree

CAPACITY = 1024  # expectations; the oldest goes first, for a caller may never take one back


class Expectations:
    def __init__(self, tree: PrefixTree, capacity: int = CAPACITY) -> None:
        self._tree = tree
        self._capacity = capacity
        self._remaining = dict[Node, int]()  # by the last node of the prefix
        self._paths = dict[Node, Sequence[Node]]()

    def __len__(self) -> int:
        return len(self._remaining)

    def expect(self, path: Sequence[Node], count: int) -> None:
        """`count` more sequences will come along `path`; what was said of it before is forgotten.

        The caller is a user of the path, so that it exists.
        """
        if not path:
            return
        end = path[-1]
        self._tree.pin(path)
        if end in self._remaining:
            self._drop(end)
        self._remaining[end] = count
        self._paths[end] = path
        if count <= 0:
            self._drop(end)
        if len(self._remaining) > self._capacity:
            self._drop(next(iter(self._remaining)))

    def arrive(self, path: Sequence[Node]) -> None:
        """A sequence has come along `path`."""
        for node in path:
            if not node.pins:
                return  # nor has any node below
            if node in self._remaining:
                self._remaining[node] -= 1
                if not self._remaining[node]:
                    self._drop(node)

    def forget(self, end: Node) -> None:
        """A path's last block was evicted: forget it, unless somebody will compute it again."""
        if end in self._remaining and not end.users:
            self._drop(end)

    def _drop(self, end: Node) -> None:
        del self._remaining[end]
        self._tree.unpin(self._paths.pop(end))
