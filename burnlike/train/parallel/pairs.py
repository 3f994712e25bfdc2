"""Which kinds of parallelism work together: each pair here is trained by a test beside one process."""

from collections.abc import Iterable, Iterator
from itertools import combinations

WORKS_TOGETHER: frozenset[frozenset[str]] = frozenset(
    map(
        frozenset,
        [
            ("fsdp2", "replicate"),
            ("fsdp2", "tensor"),
            ("ddp", "tensor"),
            ("replicate", "tensor"),
            ("ddp", "pipeline"),
            ("fsdp2", "pipeline"),
            ("replicate", "pipeline"),
            ("tensor", "pipeline"),
            ("ddp", "context"),
            ("fsdp2", "context"),
            ("replicate", "context"),
            ("fsdp2", "expert"),
            ("ddp", "expert"),
            ("replicate", "expert"),
            ("context", "expert"),
            ("tensor", "expert"),
            ("context", "tensor"),
        ],
    )
)
"""Pairs of a strategy and of sizes above 1."""

_NONE = "a single process trains, so no size can be above 1; expected the strategy fsdp2"
REASONS: dict[frozenset[str], str] = {
    **{frozenset(("none", it)): _NONE for it in ("replicate", "context", "tensor", "pipeline", "expert")},
    frozenset(("pipeline", "expert")): (
        "the balance of experts is over a whole batch, and a pipeline computes it in parts; divide the experts alone,"
        " or with replicate, shard, context and tensor"
    ),
    frozenset(("context", "pipeline")): (
        "the first step proves on the whole model that it takes parts of sequences, and no process of a pipeline has"
        " the whole; divide sequences together with replicate, shard, tensor or expert"
    ),
}
"""Why a pair is refused."""

CONTEXT_IN_FLOAT8 = (
    "expected none with distributed.context: numbers in 8 bits depend on the scale of all tokens that a layer is given,"
    " so that parts of a sequence don't give what the whole does"
)


def refused_pairs(kinds: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """The pairs among kinds of parallelism that no test has trained together, and why they are refused."""
    for one, other in combinations(kinds, 2):
        pair = frozenset((one, other))
        if pair not in WORKS_TOGETHER:
            yield one, other, REASONS.get(pair, "they have not been trained together yet")
