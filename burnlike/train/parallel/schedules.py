"""The schedules of a pipeline, as torch names them; torch is not loaded."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...errors import nearest


class Schedule(NamedTuple):
    """A schedule of `torch.distributed.pipelining`.

    Attributes:
        n_own_stages: stages of a process.
        is_v: whether the second ones stand in reverse order, so that the first process has the first and the last.
    """

    n_own_stages: int = 1
    is_v: bool = False


SCHEDULES = {
    "GPipe": Schedule(),
    "1F1B": Schedule(),
    "LoopedBFS": Schedule(2),
    "Interleaved1F1B": Schedule(2),
    "InterleavedZeroBubble": Schedule(2),
    "ZBVZeroBubble": Schedule(2, is_v=True),
    "DualPipeV": Schedule(2, is_v=True),
}


def schedule_problems(
    schedule: str, pipeline: int, microbatches: int | None, stages: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The fields of a config that say how a pipeline runs and do not fit each other, and what is wrong with them."""
    if schedule not in SCHEDULES:
        hint = nearest(schedule, [*SCHEDULES])
        yield "schedule", f"expected one of {', '.join(SCHEDULES)}, got {schedule!r}{hint}"
        return
    if pipeline == 1:
        for name, given in (("microbatches", microbatches), ("stages", stages)):
            if given:
                yield name, "is of a pipeline; expected pipeline: 2 or more, or leave it out"
        return
    n_stages = pipeline * SCHEDULES[schedule].n_own_stages
    least = 2 * pipeline if schedule == "DualPipeV" else pipeline
    if microbatches is not None and microbatches < least and schedule != "GPipe":
        yield "microbatches", f"expected at least {least} for {schedule} with {pipeline} processes, got {microbatches}"
    if microbatches is not None and "Interleaved" in schedule and microbatches % max(1, microbatches // pipeline):
        yield "microbatches", f"expected a multiple of the {pipeline} processes for {schedule}, got {microbatches}"
    if stages and len(stages) not in (n_stages - 1, n_stages):
        yield (
            "stages",
            (
                f"expected the first module of each of the {n_stages} stages, of which the first may be left out, got"
                f" {len(stages)}: {', '.join(stages)}"
            ),
        )
