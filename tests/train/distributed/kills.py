"""Kills a random process of a two-process run at random moments and resumes it: the run ends in the same bits.

python -m tests.train.distributed.kills 50
"""

import random
import sys
import tempfile
import time
from pathlib import Path

from ...processes import HANGS_S, assert_succeed, launched
from ..samples import assert_same_run, write_config

OPTIONS = ["training.epochs=2", "training.accumulation_steps=2", "distributed.strategy=ddp", "training.ema={}"]


def kill_and_resume(kills: int, place: Path, seed: int = 3) -> int:
    """Kill so many times; returns how many runs were needed, each of which ended as one that was left alone."""
    config = write_config(place)
    command = ["-m", "burnlike", "train", str(config), *(word for it in OPTIONS for word in ("--set", it))]
    started = time.monotonic()
    logs = [place / f"log-{rank}" for rank in range(2)]
    assert_succeed(launched([*command, "--run-dir", str(place / "whole")], logs), logs)
    longest, moments = time.monotonic() - started, random.Random(seed)
    done = runs = 0
    while done < kills:
        run = place / f"run-{runs}"
        while True:
            place_of = ["--resume", str(run)] if (run / "run.lock").exists() else ["--run-dir", str(run)]
            workers = launched([*command, *place_of], logs)
            if done < kills:
                time.sleep(moments.uniform(0.3 * longest, longest))
            victim = moments.choice(workers)
            if done < kills and victim.poll() is None:
                victim.kill()
                done += 1
                for worker in workers:
                    worker.kill()
                    worker.wait(HANGS_S)
                continue
            assert_succeed(workers, logs)
            break
        assert_same_run(run, place / "whole")
        runs += 1
    return runs


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[1])
        runs = kill_and_resume(count, Path(folder))
        print(f"{count} kills in {runs} runs of two processes: all ended in the same bits")
