"""Measures the memory that a step of a training takes, by torch's profiler on the CPU.

    python -m tests.train.distributed.measured_step CONFIG OUT CASES

measures one of several processes, for each list of overrides in the JSON of CASES, and writes `[[resident, peak], ...]`
to OUT-RANK.
"""

import json
import os
import sys
from pathlib import Path

from burnlike.optim.core.sharded import local
from burnlike.train import TrainConfig
from burnlike.train.job.device import peak_memory
from burnlike.train.job.job import Job
from burnlike.train.job.profiling import batches_of_steps, training


def measured(config: TrainConfig) -> tuple[int, int]:
    """Bytes of weights, states and average of a process, and of these and what a later step takes at its peak."""
    job = Job(config)
    learner, found = job.learner, batches_of_steps(job)

    def step() -> None:
        for batch in batches:
            learner.backward(batch, is_last=batch is batches[-1])
        learner.take_step()
        learner.window.close()

    with training(job):
        batches = next(found)
        step()
        # The threads of gloo let go of buffers a moment late, some 10 % of a peak in one step of three.
        peak = min(peak_memory(job.device, step) for _ in range(3))
    records = [learner.optimizer, *([] if learner.ema is None else [learner.ema])]
    states = [it for record in records for it in record.into_record().tensors.values()]  # pyright: ignore
    resident = sum(local(it).nbytes for it in (*job.model.parameters(), *job.model.buffers(), *states))
    job.parallel.close()
    return resident, resident + peak


if __name__ == "__main__":
    path, out, cases = sys.argv[1:]
    found = [measured(TrainConfig.load(path, overrides)) for overrides in json.loads(cases)]
    Path(f"{out}-{os.environ['RANK']}").write_text(json.dumps(found))
