"""Transforms of `torch.func` for functions of modules: gradients, vectorization, ensembles, modules as pytrees."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .ensembles import stack, unstack
    from .forward import fwd
    from .gradients import by_id, grad, value_and_grad
    from .leaves import restore_parameters
    from .pytrees import register_pytree
    from .vectorized import vmap

__all__ = [
    "by_id",
    "fwd",
    "grad",
    "register_pytree",
    "restore_parameters",
    "stack",
    "unstack",
    "value_and_grad",
    "vmap",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        **dict.fromkeys(["stack", "unstack"], "ensembles"),
        "fwd": "forward",
        **dict.fromkeys(["by_id", "grad", "value_and_grad"], "gradients"),
        "restore_parameters": "leaves",
        "register_pytree": "pytrees",
        "vmap": "vectorized",
    },
)
