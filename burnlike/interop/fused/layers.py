"""Layers whose whole forward a native op computes: for each a forward, and how to tell that a module computes this."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import ops
from ...ops._autocast import for_products
from ...ops.linear import machine_gains
from .functions import layer_norm, scaled_rms_norm
from .trials import agree, numbers, stand_in
from .usable import takes


@dataclass(frozen=True, slots=True)
class LayerRule:
    """One kind of layer.

    Attributes:
        op: the native op.
        forward: a function of the module and its arguments, to be its forward.
        concerns: whether a module may be of the kind, by its class and attributes.
        trial: why the forward does not fit the module; empty if it does.
    """

    op: str
    forward: Callable[..., Any]
    concerns: Callable[[nn.Module], bool]
    trial: Callable[[nn.Module], str]


def _epsilon(module: Any, x: Tensor) -> float:
    for name in ("variance_epsilon", "eps", "epsilon"):
        if (value := getattr(module, name, None)) is not None:
            return float(value)
    return torch.finfo(x.dtype).eps


def rms_norm_forward(module: Any, x: Tensor) -> Tensor:
    """The forward of layers of root mean square normalization."""
    if not takes(x, module.weight):
        return type(module).forward(module, x)
    return scaled_rms_norm(x, module.weight, _epsilon(module, x))


def layer_norm_forward(module: Any, x: Tensor) -> Tensor:
    """The forward of `nn.LayerNorm` over one dimension."""
    return layer_norm(x, module.normalized_shape, module.weight, module.bias, module.eps)


def linear_forward(module: Any, x: Tensor) -> Tensor:
    """The forward of `nn.Linear`."""
    return ops.linear(x, module.weight, module.bias)


def conv1d_forward(module: Any, x: Tensor) -> Tensor:
    """The forward of transformers' `Conv1D`, a linear layer with the weight `[d_input, d_output]`."""
    return ops.linear(x, module.weight.mT, module.bias)


def _is_linear(module: nn.Module) -> bool:
    return machine_gains() and isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward


def _is_conv1d(module: nn.Module) -> bool:
    names = {name for name, _ in module.named_parameters(recurse=False)}
    return machine_gains() and type(module).__name__ == "Conv1D" and names == {"weight", "bias"}


def _try_conv1d(module: nn.Module) -> str:
    made: Any = stand_in(module)
    x = numbers(2, 3, made.weight.shape[0])
    return agree(lambda: type(made).forward(made, x), lambda: conv1d_forward(made, x))


def _has_one_weight(module: nn.Module) -> bool:
    own = dict(module.named_parameters(recurse=False))
    others = [*module.children(), *module.buffers()]
    return list(own) == ["weight"] and own["weight"].dim() == 1 and not others


def _is_rms_norm(module: nn.Module) -> bool:
    name = type(module).__name__.lower()
    return _has_one_weight(module) and ("rmsnorm" in name or name.endswith("layernorm")) and _epsilon_is_known(module)


def _epsilon_is_known(module: nn.Module) -> bool:
    return isinstance(module, nn.RMSNorm) or any(
        isinstance(getattr(module, name, None), float) for name in ("variance_epsilon", "eps", "epsilon")
    )


def _try_rms_norm(module: nn.Module) -> str:
    made: Any = stand_in(module)
    x = numbers(2, 3, made.weight.shape[0])
    return agree(lambda: type(made).forward(made, x), lambda: rms_norm_forward(made, x))


def _is_layer_norm(module: nn.Module) -> bool:
    return isinstance(module, nn.LayerNorm) and type(module).forward is nn.LayerNorm.forward


def _try_layer_norm(module: Any) -> str:
    if len(module.normalized_shape) != 1:
        return f"it normalizes {len(module.normalized_shape)} dimensions, the native op the last one"
    return "" if module.weight is not None else "it has no weight, which the native op needs"


# Names of the three products of a gated feed-forward: gate, up, down.
_GATED = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))


def _gated_names(module: nn.Module) -> tuple[str, str, str] | None:
    children = {name for name, child in module.named_children() if any(True for _ in child.parameters())}
    return next((names for names in _GATED if children == set(names)), None)


def _gated(module: Any, x: Tensor, activation: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    names = _gated_names(module)
    if names is None or not takes(x):
        return type(module).forward(module, x)
    gate, up, down = (getattr(module, name) for name in names)
    x = for_products(x)
    return down(activation(gate(x), up(x)))


def swiglu_forward(module: Any, x: Tensor) -> Tensor:
    """The forward of a gated feed-forward with SiLU: down(silu(gate(x)) * up(x))."""
    return _gated(module, x, ops.swiglu)


def geglu_forward(module: Any, x: Tensor) -> Tensor:
    """The forward of a gated feed-forward with GELU."""
    return _gated(module, x, ops.geglu)


def geglu_tanh_forward(module: Any, x: Tensor) -> Tensor:
    """The forward of a gated feed-forward with GELU in its tanh approximation."""
    return _gated(module, x, partial(ops.geglu, approximate="tanh"))


def _try_gated(forward: Callable[..., Tensor]) -> Callable[[nn.Module], str]:
    def trial(module: nn.Module) -> str:
        gate, up, down = _gated_names(module) or ("", "", "")
        children = dict(module.named_children())
        generator = torch.Generator().manual_seed(2)
        for name, sizes in ((gate, (4, 6)), (up, (4, 6)), (down, (6, 4))):
            linear: Any = nn.utils.skip_init(nn.Linear, *sizes, bias=False)
            with torch.no_grad():
                linear.weight.copy_(torch.randn(linear.weight.shape, generator=generator))
            children[name] = linear
        made = stand_in(module, children)
        x = numbers(2, 3, 4)
        return agree(lambda: type(made).forward(made, x), lambda: forward(made, x))

    return trial


def _is_gated(module: nn.Module) -> bool:
    return _gated_names(module) is not None and not any(True for _ in module.parameters(recurse=False))


def gelu_tanh_forward(module: Any, x: Tensor) -> Tensor:
    """The forward of an activation that writes GELU's tanh approximation out."""
    return F.gelu(x, approximate="tanh")


def _is_written_out_gelu(module: nn.Module) -> bool:
    return type(module).__name__ in ("NewGELU", "NewGELUActivation", "FastGELUActivation", "GELUTanh")


def _try_gelu_tanh(module: nn.Module) -> str:
    x = numbers(4, 64)
    return agree(lambda: type(module).forward(module, x), lambda: gelu_tanh_forward(module, x))


LAYER_RULES = (
    LayerRule("linear", linear_forward, _is_linear, lambda module: ""),
    LayerRule("linear", conv1d_forward, _is_conv1d, _try_conv1d),
    LayerRule("torch's gelu", gelu_tanh_forward, _is_written_out_gelu, _try_gelu_tanh),
    LayerRule("layer_norm", layer_norm_forward, _is_layer_norm, _try_layer_norm),
    LayerRule("rms_norm", rms_norm_forward, _is_rms_norm, _try_rms_norm),
    *(
        LayerRule(op, forward, _is_gated, _try_gated(forward))
        for op, forward in (
            ("swiglu", swiglu_forward),
            ("geglu", geglu_forward),
            ("geglu", geglu_tanh_forward),
        )
    ),
)
