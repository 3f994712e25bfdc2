"""Tensor and sequence parallelism of a job: the plan of its model, applied to the processes that share its layers."""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from torch import nn

from ...errors import ConfigError
from ...interop.parallel_plans import parallelize, plan_of
from .mesh import Mesh

if TYPE_CHECKING:
    from .pipeline import Pipeline


def apply_tensor_plan(
    model: nn.Module, mesh: Mesh, plan: Mapping[str, str] | None = None, pipeline: "Pipeline | None" = None
) -> None:
    """Divide the layers of a model, or of the stages of it here, among `mesh.tensor`, in place; nothing without one.

    The plan of the job goes before what the model and its layers say themselves; see `interop.parallelize`.

    Raises:
        ConfigError: what has no plan, what is unknown in it, and sizes that do not divide, by paths and numbers.
    """
    if mesh.tensor is not None:
        within = {} if pipeline is None else _sequences_within(model, pipeline, plan or {})
        parallelize(model, mesh.tensor, {**within, **(plan or {})}, () if pipeline is None else pipeline.elsewhere)
    elif plan:
        raise ConfigError("distributed.plan: says how `tensor` processes share layers, and tensor is 1; leave one out")


def _sequences_within(model: nn.Module, pipeline: "Pipeline", plan: Mapping[str, str]) -> dict[str, str]:
    """The words by which each stage divides sequences by itself, where the model does so from block to block."""
    words, units = plan_of(model, plan), pipeline.plan.units
    if "sequence_begin" not in words.get(units[0], ()) or "sequence_end" not in words.get(units[-1], ()):
        return {}
    sequence_words: dict[str, str] = {}
    for begin, end in pairwise([*pipeline.plan.begins, len(units)]):
        if end - begin == 1:
            sequence_words[units[begin]] = "sequence_begin sequence_end"
        elif end > begin:
            sequence_words |= {units[begin]: "sequence_begin", units[end - 1]: "sequence_end"}
    return sequence_words
