"""Remembers which blocks hold which prefix, and which of them somebody still needs.

A node is one full block of tokens after one particular prefix; a sequence's `path` is the nodes of
its full blocks, in order.  Paths share nodes exactly as long as their tokens, model and salt agree.
Every sequence the engine holds is a user of its nodes, waiting ones included, so the number of
users says how often a block will still be read.  Sequences that are only expected pin their prefix:
it is evicted after what nobody needs, and before what somebody waits for.

Integers and bytes only.  This file must never know tensors, sequences, time, or the order in which
requests run.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from engine import block_keys


@dataclass(slots=True, eq=False)
class Node:
    """One block's worth of tokens in its place.

    block: where its K and V are, or None while they are not computed
    owner: the id of the sequence that is computing them, so that nobody else does
    users: sequences, waiting and running, whose tokens pass through here
    pins: prefixes through here that sequences still to come are expected to begin with
    born: for whoever puts sequences in order; see `depth_first`
    """

    key: bytes
    content: bytes
    block: int | None = None
    owner: int | None = None
    users: int = 0
    pins: int = 0
    born: int = 0

    @property
    def is_needed(self) -> bool:
        return self.users > 0 or self.pins > 0


class PrefixTree:
    def __init__(
        self,
        *,
        block_size: int,
        model: bytes,
        child_key: Callable[[bytes, bytes], bytes] = block_keys.child_key,
    ) -> None:
        self._block_size = block_size
        self._model = model
        self._child_key = child_key
        self._nodes: dict[bytes, Node] = {}
        self._node_of_block: dict[int, Node] = {}
        # Idle blocks, next to go first.  Parents always stand behind their children, because a
        # path is only ever touched from its end to its start.
        self._spare: OrderedDict[int, Node] = OrderedDict()  # nobody needs them
        self._expected: OrderedDict[int, Node] = OrderedDict()  # pinned, and without users
        self._wanted: OrderedDict[int, Node] = OrderedDict()  # who waits will read them
        self.num_live = 0  # nodes with users: the full blocks that all sequences need together

    @property
    def num_idle(self) -> int:
        return len(self._spare) + len(self._expected) + len(self._wanted)

    @property
    def num_wanted(self) -> int:
        """Idle blocks that somebody who waits will read."""
        return len(self._wanted)

    @property
    def idle_blocks(self) -> set[int]:
        return {*self._spare, *self._expected, *self._wanted}

    def enter(self, tokens: Sequence[int], *, salt: str, adapter: str = "") -> list[Node]:
        """Return the path of `tokens`, its last partial block left out; each node gains a user."""
        path: list[Node] = []
        self.extend(path, tokens, salt=salt, adapter=adapter)
        return path

    def extend(
        self, path: list[Node], tokens: Sequence[int], *, salt: str, adapter: str = ""
    ) -> None:
        """Add to `path` the nodes of those full blocks of `tokens` that it does not cover yet."""
        size = self._block_size
        key = self.key_of(path, salt=salt, adapter=adapter)
        first = len(path)
        for start in range(first * size, len(tokens) - size + 1, size):
            content = block_keys.pack(tokens[start : start + size])
            key = self._child_key(key, content)
            path.append(self._node(key, content))
        self._add_users(path, first)

    def key_of(self, path: Sequence[Node], *, salt: str, adapter: str) -> bytes:
        """What names the blocks of the path, and is the parent of what comes after them."""
        if path:
            return path[-1].key
        return block_keys.root_key(model=self._model, adapter=adapter, salt=salt)

    def leave(self, path: Sequence[Node]) -> None:
        """Undo `enter` and `extend`: one user less for each node."""
        for node in reversed(path):
            node.users -= 1
            self.num_live -= node.users == 0
            self._settle(node)

    def pin(self, path: Sequence[Node]) -> None:
        """Rather keep the nodes, for sequences that are expected, than others without users."""
        for node in path:
            node.pins += 1
        self._touch(path)

    def unpin(self, path: Sequence[Node]) -> None:
        """Undo `pin`."""
        for node in reversed(path):
            node.pins -= 1
            self._settle(node)

    def num_resident(self, path: Sequence[Node]) -> int:
        """How many blocks from the start of the path are computed, without a gap."""
        for index, node in enumerate(path):
            if node.block is None:
                return index
        return len(path)

    def fill(self, node: Node, block: int) -> int | None:
        """`block`, which somebody holds, now has the node's K and V.

        A node that has a block already keeps it, unless that one is idle: it is returned then, for
        one that is held is worth more than two.
        """
        node.owner = None
        twin = node.block
        if twin is not None and not self._is_idle(twin):
            return None
        if twin is not None:
            self._forget_block(twin)
        node.block = block
        self._node_of_block[block] = node
        return twin

    def names(self, block: int) -> bool:
        """Whether the block is a node's, and so must keep what it holds."""
        return block in self._node_of_block

    def revive(self, nodes: Iterable[Node]) -> list[int]:
        """Return the nodes' blocks for use: from now on they are not idle."""
        blocks = []
        for node in nodes:
            assert node.block is not None, "only resident nodes can be used"
            self._unlist(node.block)
            blocks.append(node.block)
        return blocks

    def retire(self, block: int) -> bool:
        """Keep a block that nobody holds any more.  False if it belongs to no node."""
        node = self._node_of_block.get(block)
        if node is None:
            return False
        self._list_for(node)[block] = node
        return True

    def evict(self) -> tuple[int, Node]:
        """Forget the idle block that is least worth keeping; return it and the node it held."""
        idle = self._spare or self._expected or self._wanted
        block, node = next(iter(idle.items()))
        self._forget_block(block)
        if not node.is_needed:
            self._forget(node)
        return block, node

    def _node(self, key: bytes, content: bytes) -> Node:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(key, content)
        elif node.content != content:
            # Two contents with one hash: the newcomer gets a node that nobody else can find.
            return Node(key, content)
        return node

    def _add_users(self, path: Sequence[Node], first: int) -> None:
        for node in path[first:]:
            self.num_live += node.users == 0
            node.users += 1
        self._touch(path[first:])

    def _touch(self, nodes: Sequence[Node]) -> None:
        """Of the idle blocks as needed as theirs, let those of the nodes go last."""
        for node in reversed(nodes):
            if node.block is not None and self._is_idle(node.block):
                self._unlist(node.block)
                self._list_for(node)[node.block] = node

    def _settle(self, node: Node) -> None:
        """Let go of a node that nobody needs any more; of its block sooner, if fewer do."""
        if node.block is None:
            if not node.is_needed:
                self._forget(node)
        elif self._is_idle(node.block) and node.block not in self._list_for(node):
            self._unlist(node.block)
            self._list_for(node)[node.block] = node

    def _list_for(self, node: Node) -> OrderedDict[int, Node]:
        """Where the node's block belongs while it is idle."""
        if node.users:
            return self._wanted
        return self._expected if node.pins else self._spare

    def _unlist(self, block: int) -> None:
        for idle in (self._spare, self._expected, self._wanted):
            idle.pop(block, None)

    def _forget_block(self, block: int) -> None:
        """An idle block no longer holds what its node names."""
        self._unlist(block)
        self._node_of_block.pop(block).block = None

    def _is_idle(self, block: int) -> bool:
        return any(block in idle for idle in (self._spare, self._expected, self._wanted))

    def _forget(self, node: Node) -> None:
        if self._nodes.get(node.key) is node:
            del self._nodes[node.key]
