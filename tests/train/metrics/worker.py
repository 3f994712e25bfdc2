"""One of two processes that share the batches of each metric. Run by test_every_metric.py."""

import sys
from functools import partial
from itertools import product
from pathlib import Path

import torch.distributed as dist

from ...checks import write_results
from .samples import CASES, fed, values

SHARES = {"even": (slice(0, 4), slice(4, 6)), "all on one": (slice(0, 6), slice(6, 6)), "none": (slice(0, 0),) * 2}
SIZES = (5, 3, 8, 1, 4, 2)


def shared(name: str, share: str) -> list[list[float]]:
    """The value of both processes' batches, and of those of this one with one more."""
    case, rank = CASES[name], dist.get_rank()
    metric = fed(case.config, case.batches(SIZES)[SHARES[share][rank]])
    of_both = values(metric).tolist()
    metric.update(*case.batches(SIZES)[rank])  # the value has left each rank its own batches
    return [of_both, values(metric).tolist()]


if __name__ == "__main__":
    checks = {f"{name}: {share}": partial(shared, name, share) for name, share in product(CASES, SHARES)}
    write_results(Path(sys.argv[1]), checks)
