"""Normalizations that a library writes out itself: which op each is, and the proof."""

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ... import ops
from ..torch_counterparts import torch_layers
from .functions import takes_norm
from .reading import names_of, read_otherwise
from .trials import Proven, proven_dtypes, stand_in, with_weights

Norm = Callable[[Tensor, Tensor, float], Tensor]
"""Of the input, the weight and epsilon."""

_EPSILONS = frozenset({"variance_epsilon", "eps", "epsilon"})


def _shifted_rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """As in Gemma, whose weight is kept as its distance from 1, and which rounds once, after the product."""
    return ops.rms_norm(x, 1.0 + weight.to(torch.promote_types(weight.dtype, torch.float32)), epsilon)


def _layer_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return ops.layer_norm(x, weight, epsilon=epsilon)


NORMS: dict[str, Norm] = {"rms_norm": ops.rms_norm, "shifted_rms_norm": _shifted_rms_norm, "layer_norm": _layer_norm}


def is_norm(module: nn.Module) -> bool:
    """Whether its name is that of a normalization, and a weight of one dimension is all that it has."""
    name, own = type(module).__name__.lower(), dict(module.named_parameters(recurse=False))
    is_called_so = "rmsnorm" in name or name.endswith("layernorm")
    has_one_weight = list(own) == ["weight"] and not is_lazy(own["weight"]) and own["weight"].dim() == 1
    return (
        is_called_so
        and has_one_weight
        and type(module) not in torch_layers()  # their code calls torch's functions
        and next(module.children(), None) is None
        and next(module.buffers(), None) is None
    )


def prove_norm(kind: str, module: Any, stock: types.FunctionType) -> tuple[Any, str]:
    """The name of the module's epsilon and the dtypes of its results, if it computes this kind."""
    norm, reason = NORMS[kind], "no native op computes it"
    for name in sorted(_EPSILONS):
        epsilon = vars(module).get(name)
        if not isinstance(epsilon, float):
            continue
        if reason := read_otherwise(module, stock, frozenset({"weight", name})):
            continue
        dtypes, reason = proven_dtypes(
            lambda: with_weights(stand_in(module), {"weight": module.weight.shape}),
            stock,
            lambda made, x, epsilon=epsilon: norm(x, made.weight, epsilon),
            module.weight.shape[0],
            (max(epsilon, 0.0) ** 0.5,),
        )
        if not reason and name not in names_of(module, stock):
            reason = f"its code does not read `{name}`"
        return (name, dtypes), reason
    return None, reason


def norm_forward(kind: str, proven: tuple[str, Proven]) -> Callable[[Any, Any], Tensor | None]:
    """What the op of this kind computes of a module: by the name of its epsilon, and the dtypes of its results."""
    norm, epsilon, results = NORMS[kind], proven[0], dict(proven[1])

    def compute(module: Any, x: Any) -> Tensor | None:
        weight, value = module.weight, getattr(module, epsilon)
        if weight is None or not isinstance(value, float) or not takes_norm(x, weight.shape, weight):
            return None
        dtype = results.get((x.dtype, weight.dtype))
        return None if dtype is None else norm(x, weight, value).to(dtype)

    return compute
