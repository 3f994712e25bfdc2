"""Which kinds of parallelism work together: each pair here is trained by a test beside one process."""

from collections.abc import Iterable, Iterator
from itertools import combinations

WORKS_TOGETHER: frozenset[frozenset[str]] = frozenset(
    map(
        frozenset,
        [
            ("fsdp2", "replicate"),
        ],
    )
)
"""Pairs of a strategy and of sizes above 1."""


def refused_pairs(kinds: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The pairs among kinds of parallelism that no test has trained together."""
    for one, other in combinations(kinds, 2):
        if frozenset((one, other)) not in WORKS_TOGETHER:
            yield one, other
