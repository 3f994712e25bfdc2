"""`burnlike train CONFIG --find lr|batch-size`: measures on a config what its training should begin with."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..._memory import available_memory
from ..._terminal import table
from ...errors import DeviceError, TrainingError
from ...optim import ConstantLrConfig
from ..runs.logs import write_json
from ..view.formats import format_bytes
from ..view.plot import plot
from .configs import TrainConfig
from .device import peak_memory, seconds_of
from .job import Job
from .profiling import batches_of_steps, job_to_measure, training
from .trial import first_batch

LOWEST, HIGHEST, STEPS = 1e-7, 10.0, 100
"""The rates of a range test, and its steps."""
_SMOOTHING = 0.9
_DIVERGED = 4.0
"""A smoothed loss of so many times the lowest one ends the test."""
_SKIPPED = 5
"""Steps at the begin whose smoothed loss is of too few to say how it falls."""
_WIDTH, _HEIGHT = 76, 14
_LARGEST_BATCH = 2**20
_SHARES = {"cuda": 0.9, "cpu": 0.7}
"""Of the free memory that the largest batch may take: the rest is for what lies between the tensors, and on a CPU for
what other programs take meanwhile.
"""
_TRIED_SHARE, _TRIED_TIMES = 0.5, 16
"""The batch that is tried takes at most this share of that, and has at most so many times the items of those before."""


class RateTest(NamedTuple):
    """The losses of a range test (Smith 2017, section 3.3).

    Attributes:
        rates: of each step that was taken, rising.
        losses: before each step, the mean over its batches.
        smoothed: the moving average of the losses.
        suggested: the rate where the smoothed loss falls most over the logarithm of the rate.
    """

    rates: Sequence[float]
    losses: Sequence[float]
    smoothed: Sequence[float]
    suggested: float


def find_rate(config: TrainConfig, steps: int = STEPS) -> RateTest:
    """Train with rates from 1e-7 to 10, each step with the next one, until the loss grows without an end.

    The optimizer is the config's own, and every group has the same rate.

    Raises:
        TrainingError: the loss falls at no rate.
    """
    config = config.replace(lr_scheduler=ConstantLrConfig(lr=LOWEST))
    job = job_to_measure(config, "--find lr")
    schedule: Any = job.learner.lr_scheduler
    rates: list[float] = []
    losses: list[float] = []
    smoothed: list[float] = []
    average = 0.0
    with training(job):
        # The batches have no end; the rates have.
        for number, batches in zip(range(steps), batches_of_steps(job), strict=False):
            schedule.lr = LOWEST * (HIGHEST / LOWEST) ** (number / (steps - 1))
            outputs = [job.learner.backward(batch, is_last=batch is batches[-1]) for batch in batches]
            loss = sum(float(it.loss.detach()) * it.size for it in outputs) / sum(it.size for it in outputs)
            if not math.isfinite(loss):
                break
            # Divided below by the sum of the weights so far, as in Adam: the average begins at 0.
            average = _SMOOTHING * average + (1 - _SMOOTHING) * loss
            rates.append(schedule.lr)
            losses.append(loss)
            smoothed.append(average / (1 - _SMOOTHING ** (number + 1)))
            if number > _SKIPPED and smoothed[-1] > _DIVERGED * min(smoothed):
                break
            job.learner.take_step()
            job.learner.window.close()
    # The slope over five losses, per factor of the rate.
    lowest = min(range(len(smoothed)), key=smoothed.__getitem__, default=0)
    slopes = {
        place: (smoothed[place + 2] - smoothed[place - 2]) / math.log(rates[place + 2] / rates[place - 2])
        for place in range(_SKIPPED, min(lowest + 1, len(rates) - 2))
    }
    best = min(slopes, key=slopes.__getitem__, default=None)
    if best is None or slopes[best] >= 0:
        raise TrainingError(
            f"--find lr: the loss falls at no rate from {LOWEST:g} to {HIGHEST:g}; check data, task and model"
        )
    return RateTest(rates, losses, smoothed, rates[best])


def rate_lines(config: TrainConfig, test: RateTest) -> list[str]:
    """A plot of the smoothed losses over the logarithm of the rate, and what to set."""
    end = next((at for at, it in enumerate(test.smoothed) if it > 2 * test.smoothed[0]), len(test.smoothed))
    points = [(math.log10(rate), loss) for rate, loss in zip(test.rates[:end], test.smoothed[:end], strict=True)]
    rows = plot("loss over log10 of the learning rate", {"train": points}, _WIDTH, _HEIGHT)
    lowest = test.rates[min(range(len(test.smoothed)), key=test.smoothed.__getitem__)]
    return [
        *("".join(text for text, _ in row).rstrip() for row in rows),
        f"steps      {len(test.rates)}, to a rate of {test.rates[-1]:.1e}",
        f"lowest     the loss is lowest at {lowest:.1e}; a training needs less",
        f"suggested  --set {_rate_setting(config, test.suggested)}, where the loss falls most",
    ]


def _rate_setting(config: TrainConfig, rate: float) -> str:
    """The setting of a rate, such as `lr_scheduler.initial_lr=1e-2`; of all keys where the config leaves them out."""
    if config.lr_scheduler is None:
        return f"'lr_scheduler={{type: CosineAnnealing, initial_lr: {rate:.1e}}}'"
    path, part = "lr_scheduler", config.lr_scheduler
    while (below := getattr(part, "scheduler", None) or getattr(part, "base", None)) is not None:
        path, part = f"{path}.{'scheduler' if hasattr(part, 'scheduler') else 'base'}", below
    name = next((it for it in ("initial_lr", "lr", "final_lr") if hasattr(part, it)), "")
    return f"{path}.{name}={rate:.1e}" if name else f"{path}={rate:.1e}"


class BatchSize(NamedTuple):
    """A batch: the memory that a step of two such takes beside weights and states, and items in a second.

    A batch without a rate was not tried; its memory is that of the line through the others.
    """

    size: int
    memory: int
    rate: float | None


class BatchTest(NamedTuple):
    """Sizes of a batch with the memory of their steps, and the size to set.

    Attributes:
        sizes: rising; the last is the largest that fits.
        fixed, per_item: the line through the measured memory, in bytes.
        free: bytes that a step may take.
        batch_size: suggested, with `accumulation_steps`: as many items of a step as the config has, or nearly.
    """

    sizes: Sequence[BatchSize]
    fixed: float
    per_item: float
    free: int
    batch_size: int
    accumulation_steps: int


def find_batch_size(config: TrainConfig) -> BatchTest:
    """The largest batch whose step fits into the memory that is free, by a line through the memory of smaller ones.

    A larger one is tried once, far from the end of the memory, so that the line goes through what is measured.

    Raises:
        DeviceError: not even one item fits.
    """
    job = job_to_measure(config, "--find batch-size")
    with training(job):
        _measured(job, 1)  # the optimizer's states are there from now on
        free = int(_SHARES[job.device.type] * free_memory(job.device))
        most = min(_LARGEST_BATCH, max(len(job.data.train), 1))
        first = max(1, min(config.training.batch_size, most) // 4)
        sizes: list[BatchSize] = []
        for size in dict.fromkeys((first, min(2 * first, most), min(4 * first, most))):
            if _fitting(sizes, free) >= size:
                sizes.append(_measured(job, size))
        tried = min(_fitting(sizes, int(_TRIED_SHARE * free)), _TRIED_TIMES * sizes[-1].size if sizes else 1, most)
        if sizes and tried > sizes[-1].size:
            sizes.append(_measured(job, tried))
        fixed, per_item = _line(sizes)
        largest = min(_fitting(sizes, free), most)
        if largest < 1 or not sizes:
            raise DeviceError(
                f"--find batch-size: {format_bytes(free)} may be used on {job.device}, and one item takes more; lower"
                " the model's sizes or the items'"
            )
        # The largest batch that fits and with which a step has as many items as the config says.
        items = config.training.items_per_step
        batch_size = max(index for index in range(1, min(items, largest) + 1) if items % index == 0)
        accumulation_steps = items // batch_size
        measured_sizes = {it.size for it in sizes}
        if batch_size not in measured_sizes and batch_size < max(measured_sizes):
            sizes.append(_measured(job, batch_size))
        for size in {batch_size, largest} - {it.size for it in sizes}:
            sizes.append(BatchSize(size, round(fixed + per_item * size), None))
    ordered = sorted((it for it in sizes if it.size <= largest), key=lambda it: it.size)
    return BatchTest(ordered, fixed, per_item, free, batch_size, accumulation_steps)


def free_memory(device: torch.device) -> int:
    """Bytes that tensors on a device can still take, also those that torch keeps and does not use."""
    if device.type != "cuda":
        return available_memory()
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def _fitting(sizes: Sequence[BatchSize], memory: int) -> int:
    """The items of the largest batch that takes no more memory, by the line; any number, where there is none."""
    fixed, per_item = _line(sizes)
    return max(0, int((memory - fixed) / per_item)) if per_item > 0 else _LARGEST_BATCH


def _measured(job: Job, size: int) -> BatchSize:
    def step(*batches: Any) -> None:
        job.learner.train_step(*batches)
        job.learner.window.close()

    # Of two batches the second finds the gradients of the first.
    memory = peak_memory(job.device, lambda: step(batch := first_batch(job.config, job.data, size, job.device), batch))
    batch = first_batch(job.config, job.data, size, job.device)
    return BatchSize(size, memory, size / seconds_of(job.device, lambda: step(batch)))


def _line(sizes: Sequence[BatchSize]) -> tuple[float, float]:
    """Memory without items and of each: through the last two sizes, which are nearest to the larger ones."""
    if not sizes:
        return 0.0, 0.0
    last = sizes[-1]
    if len(sizes) == 1:
        return 0.0, last.memory / last.size
    slope = max(0.0, (last.memory - sizes[-2].memory) / (last.size - sizes[-2].size))
    return last.memory - slope * last.size, slope


def batch_lines(test: BatchTest) -> list[str]:
    rows = [("batch", "memory of a step", "items/s")]
    rows += [
        (str(it.size), format_bytes(it.memory), f"{it.rate:,.0f}" if it.rate else "not tried") for it in test.sizes
    ]
    largest = test.sizes[-1].size
    size, steps = test.batch_size, test.accumulation_steps
    return [
        *table(rows),
        f"memory     {format_bytes(test.fixed)} and {format_bytes(test.per_item)} for each item, beside weights and"
        f" states; {format_bytes(test.free)} may be used",
        f"largest    {largest}",
        f"suggested  --set training.batch_size={size} --set training.accumulation_steps={steps}, which keeps"
        f" {size * steps} items of a step",
    ]


def keep(test: RateTest | BatchTest, file: Path) -> None:
    """Write the results as JSON."""
    values = test._asdict()
    if isinstance(test, BatchTest):
        values["sizes"] = [size._asdict() for size in test.sizes]
    write_json(file, values)
