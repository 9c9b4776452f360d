"""The sequences that are not running, in the order in which they will.

By priority; then those first that ran before and were preempted; then in depth-first order of the
prefix tree, or, once few are left, those first that will probably take longest: the last steps then
end together instead of waiting for one long completion.

Adding, taking and dropping one costs O(log n) or less with any number waiting: a dropped sequence
stays in the heap until it comes up.  A parked sequence is out of the heap until the node it waits
for is settled, so nobody looks at it in vain at every step.
"""

from collections import Counter
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from engine.depth_first import Place
from engine.prefix_tree import Node
from engine.sequence import Sequence, State

# -priority, whether it has never run, -length (or 0 for all), place
Rank: TypeAlias = tuple[int, bool, int, Place]


class WaitingQueue:
    """length: how many tokens a sequence will probably still get."""

    def __init__(self, length: Callable[[Sequence], int]) -> None:
        self._length = length
        self._longest_first = False
        self._heap: list[tuple[Rank, Sequence]] = []
        self._parked: dict[Node, list[Sequence]] = {}
        self._parked_priorities = Counter[int]()
        self._num_waiting = 0

    def __len__(self) -> int:
        return self._num_waiting

    def push(self, seq: Sequence) -> None:
        self._num_waiting += 1
        self._enqueue(seq)

    def put_longest_first(self, longest_first: bool) -> None:
        """Choose between the two orders.  A change costs O(n)."""
        if longest_first == self._longest_first:
            return
        self._longest_first = longest_first
        waiting = (seq for _, seq in self._heap if seq.state is State.WAITING)
        self._heap = [(self._rank(seq), seq) for seq in waiting]
        heapify(self._heap)

    def first(self) -> Sequence | None:
        """The sequence that is to run next, left where it is."""
        while self._heap and self._heap[0][1].state is not State.WAITING:
            heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def pop(self) -> Sequence:
        """Take the sequence that `first` returned."""
        self._num_waiting -= 1
        return heappop(self._heap)[1]

    def park_first(self, node: Node) -> None:
        """Set the first sequence aside until `wake` is called with the node."""
        seq = heappop(self._heap)[1]
        seq.state = State.PARKED
        self._parked_priorities[seq.priority] += 1
        self._parked.setdefault(node, []).append(seq)

    def wake(self, nodes: list[Node]) -> None:
        """The nodes are computed, or nobody computes them any more: their waiters stand in line."""
        if not self._parked:
            return
        for node in nodes:
            for seq in self._parked.pop(node, ()):
                if seq.state is State.PARKED:
                    self._parked_priorities[seq.priority] -= 1
                    self._enqueue(seq)

    def is_behind_parked(self, seq: Sequence) -> bool:
        """Whether somebody who is set aside has its priority, or a higher one."""
        return any(
            count and priority >= seq.priority
            for priority, count in self._parked_priorities.items()
        )

    def drop(self, seq: Sequence) -> None:
        """Forget a waiting or parked sequence."""
        self._parked_priorities[seq.priority] -= seq.state is State.PARKED
        seq.state = State.ENDED
        self._num_waiting -= 1

    def _enqueue(self, seq: Sequence) -> None:
        seq.state = State.WAITING
        heappush(self._heap, (self._rank(seq), seq))

    def _rank(self, seq: Sequence) -> Rank:
        length = self._length(seq) if self._longest_first else 0
        return (-seq.priority, not seq.has_run, -length, seq.place)
