"""What can't be divided by sequences, experts or stages, as a config says it; torch is not loaded for it."""

from collections.abc import Iterator
from typing import Any

from ...config import Config, ModuleConfig
from ...config.registry import parts_below, tag_of

_TASKS = ("LanguageModel", "MaskedLanguageModel", "TokenClassification")
"""Tasks that divide the sequences of a batch."""
_FAMILIES = tuple(f"burnlike.nn.{it}." for it in ("activation", "containers", "dropout", "embedding", "linear"))
"""Layers that see each position alone, and what holds layers."""
_ATTEND = ("DecoderLm", "BertEncoder", "BertMaskedLm", "TransformerEncoder", "MultiHeadAttention", "CausalAttention")
_BY_POSITION = ("GatedFeedForward", "PositionWiseFeedForward", "MixtureOfExperts", "LayerNorm", "RmsNorm")
_OF_POSITIONS = ("PositionalEncoding", "RotaryEncoding", "Add", "Multiply")
_OTHERS_WEIGHTS = ("LoRA", "Pretrained")
_DIVIDED = {*_ATTEND, *_BY_POSITION, *_OF_POSITIONS, *_OTHERS_WEIGHTS}
"""Models and layers that take parts of sequences."""


def context_problems(model: Any, task: Any) -> Iterator[tuple[str, str]]:
    """Where a job's model or task is none whose sequences processes can share, and why.

    A type of one's own is not known here: a run proves of it that it gives for parts what it gives for the whole.
    """
    name = tag_of(type(getattr(task, "task", task)))
    if type(task).__module__.startswith("burnlike.") and name not in _TASKS:
        yield "distributed.context", f"{name} does not divide sequences; the tasks that do are {', '.join(_TASKS)}"
    for path, part in _configs(model):
        kind, tag = type(part), tag_of(type(part))
        if not isinstance(part, ModuleConfig) or not kind.__module__.startswith("burnlike."):
            continue
        if tag not in _DIVIDED and not kind.__module__.startswith(_FAMILIES):
            yield "distributed.context", f"{tag} ({path}) needs whole sequences; leave out `context`"
            return


def expert_problems(model: Any, size: int) -> Iterator[tuple[str, str]]:
    """Where the number of experts can't be divided; or that there are none, as far as the config says."""
    found = [(path, it) for path, it in _configs(model) if isinstance(getattr(it, "n_experts", None), int)]
    for path, part in found:
        if part.n_experts % size:
            yield f"{path}.n_experts", f"expected a multiple of {size} (distributed.expert), got {part.n_experts}"
    kinds = {type(it) for _, it in _configs(model) if isinstance(it, ModuleConfig)}
    is_known = all(it.__module__.startswith("burnlike.") and tag_of(it) != "Pretrained" for it in kinds)
    if not found and is_known:
        yield (
            "distributed.expert",
            f"{tag_of(type(model))} has no experts; leave out `expert`, or take a model with MixtureOfExperts, such as"
            " DecoderLm with feed_forward: {type: Experts}",
        )


def quantized_problems(model: Any, distributed: Any) -> Iterator[tuple[str, str]]:
    """Where weights in 8 or 4 bits can't be divided as the config asks, with what can."""
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
    """What of a training does not go together with a pipeline, and why: of a config, or of a program's Learner."""
    if precision == "float16":
        yield "training.precision", "expected bfloat16 or float32 with a pipeline, whose stages share no loss scale"
    if compiles:
        yield "training.compile", "expected false with a pipeline, whose stages end in the middle of the model"


def _configs(model: Any) -> Iterator[tuple[str, Any]]:
    """The config of a model and those in it, with their paths."""
    yield "model", model
    yield from ((path, part) for path, _, part in parts_below(model, "model") if isinstance(part, Config))
