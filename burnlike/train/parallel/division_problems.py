"""Refusals of what processes can't divide or do together, by a config alone; torch is not loaded for them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

from ...config import Config, ModuleConfig
from ...config.registry import kinds_in, parts_below, tag_of
from ...errors import nearest
from ...nn.containers.layer_facts import facts_of

_TASKS = ("LanguageModel", "MaskedLanguageModel", "TokenClassification")
"""Tasks that divide the sequences of a batch."""
_CONTAINERS = "burnlike.nn.containers."
"""They hold layers, which are asked by themselves."""
_MODELS = ("DecoderLm", "BertEncoder", "BertMaskedLm", "LoRA", "Pretrained")
"""Models that take parts of sequences; layers state it in their facts."""
_WITH = {
    "fsdp2": "replicate tensor pipeline context expert",
    "ddp": "tensor pipeline context expert",
    "replicate": "tensor pipeline context expert",
    "tensor": "pipeline context expert",
    "context": "expert",
}
WORKS_TOGETHER = frozenset(frozenset((one, other)) for one, others in _WITH.items() for other in others.split())
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
SCHEDULES = {"GPipe": 1, "1F1B": 1, "LoopedBFS": 2, "Interleaved1F1B": 2, "InterleavedZeroBubble": 2}
"""The stages of a process, by the name of a schedule; torch's schedules in a V can't measure a model (torch 2.13)."""


def context_problems(model: Any, task: Any) -> Iterator[tuple[str, str]]:
    """Models, layers and tasks of a job whose sequences processes can't share, and why.

    A type of one's own is not known here: a run proves of it that it gives for parts what it gives for the whole.
    """
    name = tag_of(type(getattr(task, "task", task)))
    if type(task).__module__.startswith("burnlike.") and name not in _TASKS:
        yield "distributed.context", f"{name} does not divide sequences; the tasks that do are {', '.join(_TASKS)}"
    for path, part in _configs(model):
        kind, tag = type(part), tag_of(type(part))
        if not isinstance(part, ModuleConfig) or not kind.__module__.startswith("burnlike."):
            continue
        if kind.__module__.startswith(_CONTAINERS) or tag in _MODELS or facts_of(part).divides_sequences:
            continue
        yield "distributed.context", f"{tag} ({path}) needs whole sequences; leave out `context`"
        return


def expert_problems(model: Any, size: int) -> Iterator[tuple[str, str]]:
    """Numbers of experts that can't be divided, or that there are none, as far as the config says."""
    with_experts = [(path, it) for path, it in _configs(model) if isinstance(getattr(it, "n_experts", None), int)]
    for path, part in with_experts:
        if part.n_experts % size:
            yield f"{path}.n_experts", f"expected a multiple of {size} (distributed.expert), got {part.n_experts}"
    kinds = [it for it in kinds_in(model) if issubclass(it, ModuleConfig)]
    if not with_experts and all(map(is_understood, kinds)):
        yield (
            "distributed.expert",
            f"{tag_of(type(model))} has no experts; leave out `expert`, or take a model with MixtureOfExperts, such as"
            " DecoderLm with feed_forward: {type: Experts}",
        )


def is_understood(kind: type) -> bool:
    """True if a class of configs is burnlike's and makes nothing of other libraries: its code is known."""
    return kind.__module__.startswith("burnlike.") and tag_of(kind) != "Pretrained"


def quantized_problems(model: Any, distributed: Any) -> Iterator[tuple[str, str]]:
    """Weights in 8 or 4 bits that can't be divided as the config asks, with what can."""
    for path, part in _configs(model):
        scheme = getattr(part, "quantize", None)
        if scheme is None or not isinstance(part, ModuleConfig):
            continue
        for size in ("tensor", "pipeline"):
            if getattr(distributed, size) > 1:
                yield f"{path}.quantize", f"weights in {scheme} can't be divided by `{size}`; {_WHOLE}"
        if scheme == "int8" and distributed.name == "fsdp2":
            yield f"{path}.quantize", f"weights in int8 can't be divided by fsdp2; take nf4, or {_WHOLE}"


_WHOLE = "take `strategy: ddp` alone, with which each process has all of them"


REDUCED_ON_CPU = (
    "torch's DistributedDataParallel sums up in bfloat16 on GPUs only; leave it out on a CPU, or use the strategy fsdp2"
)
IN_INT8 = "expected bfloat16 or float32 with several processes, int8_mixed computes in a single one"


def pipeline_problems(precision: str, *, compiles: bool) -> Iterator[tuple[str, str]]:
    """Settings of a config, or of a program's Learner, that don't go together with a pipeline, and why."""
    if precision == "float16":
        yield "training.precision", "expected bfloat16 or float32 with a pipeline, whose stages share no loss scale"
    if compiles:
        yield "training.compile", "expected false with a pipeline, whose stages end in the middle of the model"


def _configs(model: Any) -> Iterator[tuple[str, Any]]:
    """The config of a model and those in it, with their paths."""
    yield "model", model
    yield from ((path, part) for path, _, part in parts_below(model, "model") if isinstance(part, Config))


def refused_pairs(kinds: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """The pairs among kinds of parallelism that no test has trained together, and why they are refused."""
    for one, other in combinations(kinds, 2):
        pair = frozenset((one, other))
        if pair not in WORKS_TOGETHER:
            yield one, other, REASONS.get(pair, "they have not been trained together yet")


def schedule_problems(
    schedule: str, pipeline: int, microbatches: int | None, stages: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Settings of a pipeline's schedule that do not fit each other, by field."""
    if schedule not in SCHEDULES:
        hint = nearest(schedule, [*SCHEDULES])
        yield "schedule", f"expected one of {', '.join(SCHEDULES)}, got {schedule!r}{hint}"
        return
    if pipeline == 1:
        for name, value in (("microbatches", microbatches), ("stages", stages)):
            if value:
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
