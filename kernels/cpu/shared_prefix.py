"""Which decodes of a step begin with the same blocks.  Integers only.

Sequences whose tables start with the same blocks have the same tokens there, so their queries can
meet those keys in one product, instead of each sequence reading them again.
"""

from dataclasses import dataclass

# System prompt, document, conversation, and room to spare: every step pays for the search.
MAX_FORKS = 8


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """`seqs` begin with the same `num_blocks` blocks."""

    seqs: list[int]
    num_blocks: int

    @property
    def saved_blocks(self) -> int:
        """How many fewer blocks are read than if each sequence read its own."""
        return (len(self.seqs) - 1) * self.num_blocks


def shared_prefixes(tables: list[list[int]]) -> list[SharedPrefix]:
    """Group the sequences so that many blocks are saved; each is in one group at most.

    tables: for each sequence, the blocks that may be shared, from its first.
    """
    return _best_groups(list(range(len(tables))), tables, MAX_FORKS)


def _best_groups(seqs: list[int], tables: list[list[int]], forks: int) -> list[SharedPrefix]:
    """Either one group of all, or those that agree further apart and one group of the rest."""
    together = SharedPrefix(seqs, _num_common(seqs, tables))
    apart = [
        group
        for branch in _branches(together, tables)
        if len(branch) > 1 and forks > 0
        for group in _best_groups(branch, tables, forks - 1)
    ]
    in_a_group = {seq for group in apart for seq in group.seqs}
    rest = SharedPrefix([seq for seq in seqs if seq not in in_a_group], together.num_blocks)
    groups = [*apart, rest] if rest.saved_blocks > 0 else apart
    if together.saved_blocks > sum(group.saved_blocks for group in groups):
        return [together]
    return groups


def _num_common(seqs: list[int], tables: list[list[int]]) -> int:
    # Of sorted lists, what the first and the last have in common they all have.
    first = min((tables[seq] for seq in seqs), default=[])
    last = max((tables[seq] for seq in seqs), default=[])
    pairs = zip(first, last, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


def _branches(prefix: SharedPrefix, tables: list[list[int]]) -> list[list[int]]:
    """The sequences that go on after the prefix, by the block they go on with."""
    branches: dict[int, list[int]] = {}
    for seq in prefix.seqs:
        if len(tables[seq]) > prefix.num_blocks:
            branches.setdefault(tables[seq][prefix.num_blocks], []).append(seq)
    return list(branches.values())
