"""The schedules of a pipeline, as torch names them; torch is not loaded."""

from collections.abc import Iterator, Sequence

from ...errors import nearest

SCHEDULES = {"GPipe": 1, "1F1B": 1, "LoopedBFS": 2, "Interleaved1F1B": 2, "InterleavedZeroBubble": 2}
"""The stages of a process, by the name of a schedule; torch's schedules in a V can't measure a model (torch 2.13)."""


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
    n_stages = pipeline * SCHEDULES[schedule]
    if microbatches is not None and microbatches < pipeline and schedule != "GPipe":
        yield "microbatches", f"expected at least one for each of the {pipeline} processes, got {microbatches}"
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
