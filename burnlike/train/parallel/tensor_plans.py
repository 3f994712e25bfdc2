"""Tensor and sequence parallelism of a job: the plan of its model, applied to the processes that share its layers."""

from collections.abc import Mapping

from torch import nn

from ...errors import ConfigError
from ...interop.parallel_plans import parallelize
from .mesh import Mesh


def apply_tensor_plan(model: nn.Module, mesh: Mesh, plan: Mapping[str, str] | None = None) -> None:
    """Divide the layers of a model among `mesh.tensor`, in place; nothing where that is None.

    The plan of the job goes before what the model and its layers say themselves; see `interop.parallelize`.

    Raises:
        ConfigError: what has no plan, what is unknown in it, and sizes that do not divide, by paths and numbers.
    """
    if mesh.tensor is not None:
        parallelize(model, mesh.tensor, plan)
    elif plan:
        raise ConfigError("distributed.plan: says how `tensor` processes share layers, and tensor is 1; leave one out")
