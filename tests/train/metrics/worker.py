"""One of two processes that share the batches of each metric. Run by test_every_metric.py."""

import json
import os
import sys
from pathlib import Path

import torch.distributed as dist

from .samples import CASES, fed, values

SHARES = {"even": (slice(0, 4), slice(4, 6)), "all on one": (slice(0, 6), slice(6, 6)), "none": (slice(0, 0),) * 2}
SIZES = (5, 3, 8, 1, 4, 2)


def main(folder: Path) -> None:
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    found = {}
    for name, case in CASES.items():
        for share, parts in SHARES.items():
            metric = fed(case.config, case.batches(SIZES)[parts[rank]])
            shared = values(metric).tolist()
            metric.update(*case.batches(SIZES)[rank])  # the value has left each rank its own batches
            found[f"{name}: {share}"] = [shared, values(metric).tolist()]
    (folder / f"found{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
