"""Layers whose whole forward a native op computes: for each a forward, and the proof that a module computes this."""

import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ... import ops
from ..._torch_compat.modules import is_stock_convolution
from ..._torch_compat.wrappers import without_overrides
from ...ops import half_products
from ...ops.bernoulli_noise import draws_as_torch
from ...ops.bias_gelu import approximate_gelu
from ...ops.linear import machine_gains
from ..torch_counterparts import torch_layers
from .experts import experts_forward, is_experts, prove_experts
from .forwards import FusedForward, computes_weights, fused_forward, stock_forward
from .functions import dropout, takes, takes_linear, takes_norm
from .gated import GEGLU, GEGLU_TANH, SWIGLU, comparable, gated_forward, is_gated, kind_of, prove_gated
from .image_layouts import stock_layout
from .images import IN_CHANNELS_LAST, convolved
from .lazy_norm import numbers_of
from .native_convolution import options_of
from .reading import methods_of, names_of, one_argument, read_otherwise, reads_only
from .trials import Proven, proven_dtypes, stand_in, untouched_state, with_weights

Methods = tuple[tuple[str, types.FunctionType], ...]
"""Methods of a class, by name, that its forward calls."""

Compute = Callable[..., Tensor | None]
"""A function of a module and its inputs: the result, or None for what the op does not take."""


@dataclass(frozen=True, slots=True)
class LayerRule:
    """One kind of layer, with the name by which it is found again when a module is unpickled, and its native op.

    Attributes:
        concerns: whether a module may be of the kind, by its class and attributes.
        prove: what of the module the forward depends on, hashable, or None and why the op does not compute it.
        compute: with that, what the op computes.
        arguments: how many tensors the forward takes.
    """

    name: str
    op: str
    concerns: Callable[[nn.Module], bool]
    prove: Callable[[nn.Module, types.FunctionType], tuple[Any, str]]
    compute: Callable[[Any], Compute]
    arguments: int = 1


def fuse_layer(module: nn.Module, proven: dict[Any, tuple[Any, str]]) -> tuple[FusedForward | None, str]:
    """The forward of a rule that a module fits, or why none does; empty where none concerns it.

    `proven` has what was proved for other modules, and gets what is proved for this one.
    """
    owner, stock = stock_forward(type(module))
    reason = ""
    for rule in LAYER_RULES.values():
        if stock is None or computes_weights(type(module)) or not rule.concerns(module):
            continue
        if rule.arguments == 1 and one_argument(stock) is None:
            return None, "its forward requires several arguments"
        key = (rule.name, *_same_proof(module))
        if key not in proven:
            with untouched_state():
                proven[key] = rule.prove(module, stock)
        details, reason = proven[key]
        if not reason:
            return layer_forward(owner, rule.name, methods_of(type(module), stock), details), ""
    return None, reason


def _same_proof(module: nn.Module) -> tuple[Any, ...]:
    """The attributes that a proof may depend on: modules that share them share the proof."""
    # Settings by value, functions by identity.
    simple = (int, float, str, bool, type(None))
    settings = tuple((name, it) for name, it in vars(module).items() if isinstance(it, simple) and name != "training")
    functions = [var for var in vars(module).values() if callable(var)]
    others = tuple(comparable(function) if isinstance(function, partial) else id(function) for function in functions)
    children = tuple((name, kind_of(child)) for name, child in module.named_children())
    return type(module), settings, others, children, tuple(it.shape for it in module.parameters(recurse=False))


def layer_forward(owner: type[nn.Module], name: str, methods: Methods, details: Any) -> FusedForward:
    """The forward of a rule of `LAYER_RULES` for modules with these details, while the class has these methods."""
    rule, stock = LAYER_RULES[name], stock_forward(owner)[1]
    assert stock is not None
    return fused_forward(
        owner,
        (name, methods, details),
        lambda: (
            _with_op(stock, rule.arguments, methods, rule.compute(details)),
            (rule.op,),
            (layer_forward, owner, name, methods, details),
        ),
    )


def _with_op(stock: types.FunctionType, count: int, methods: Methods, compute: Compute) -> Callable[..., Any]:
    """The stock forward with another way for `count` arguments, while its methods are what they were."""
    name, reads_anew = one_argument(stock) or "", computes_weights

    def forward(module: Any, *arguments: Any, **keywords: Any) -> Any:
        inputs = arguments if arguments or count > 1 else (keywords.get(name),)
        is_proven = len(inputs) == count and len(arguments) + len(keywords) == count and inputs[0] is not None
        # Parametrized since it was fused: the op's forward reads a weight twice, by which some draw or iterate twice.
        is_proven = is_proven and not ("parametrizations" in module._modules and reads_anew(type(module)))
        for method, function in methods:
            is_proven = is_proven and getattr(type(module), method, None) is function and method not in module.__dict__
        result = compute(module, *inputs) if is_proven else None
        return stock(module, *arguments, **keywords) if result is None else result

    # With the stock function's globals, of which it uses none: torch.jit.script compiles the stock function, by these.
    rebuilt = types.FunctionType(forward.__code__, stock.__globals__, stock.__name__, None, forward.__closure__)
    return update_wrapper(rebuilt, stock)


def _linear(module: Any, x: Any) -> Tensor | None:
    return ops.linear(x, module.weight, module.bias) if takes_linear(x, module.weight, module.bias) else None


def conv1d_forward(module: Any, x: Any) -> Tensor | None:
    """transformers' `Conv1D`, a linear layer with the weight `[d_input, d_output]`."""
    return ops.linear(x, module.weight.mT, module.bias) if takes(x, module.weight, module.bias) else None


def _is_linear(module: Any) -> bool:
    return isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward and machine_gains(module.weight)


def _dropout(module: Any, x: Any) -> Tensor | None:
    return dropout(x, module.p, module.training, module.inplace)


def _is_conv1d(module: Any) -> bool:
    names = {name for name, _ in module.named_parameters(recurse=False)}
    return type(module).__name__ == "Conv1D" and names == {"weight", "bias"} and machine_gains(module.weight)


def _is_slow_convolution(module: Any) -> bool:
    return is_stock_convolution(module) and not half_products.SLOW.isdisjoint((torch.bfloat16, module.weight.dtype))


def _convolution(module: Any, x: Any) -> Tensor | None:
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        return None
    if not takes(x, module.weight, module.bias) or x.dim() != module.weight.dim():
        return None
    options = options_of(module)
    return None if options is None else ops.convolution(x, module.weight, module.bias, *options)


def _convolution_in_a_part(module: Any, x: Any) -> Tensor | None:
    if (result := convolved(module, x)) is not None:
        return result
    options = options_of(module)
    is_unsafe = options is not None and half_products.is_unsafe(module.weight.shape[2:], options[0])
    if not (half_products.SLOW or is_unsafe):
        return None
    with without_overrides():
        x = numbers_of(x)
        return _convolution(module, stock_layout(x) if is_unsafe and isinstance(x, Tensor) else x)


def _prove_conv1d(module: Any, stock: types.FunctionType) -> tuple[Any, str]:
    if reason := read_otherwise(module, stock, frozenset({"weight", "bias", "nf", "size", "view", "addmm"})):
        return None, reason
    shapes: Any = {"weight": (3, module.weight.shape[1]), "bias": module.bias.shape}
    _, reason = proven_dtypes(lambda: with_weights(stand_in(module), shapes), stock, conv1d_forward, 3)
    return (), reason


_GELUS = {
    "tanh": ("GELUTanh", "NewGELU", "NewGELUActivation", "FastGELUActivation", "AccurateGELUActivation"),
    "sigmoid": ("QuickGELUActivation", "QuickGELU"),
}
"""By the form of an approximation of GELU, the activations that may call it or write it out."""
_GELU_SETTINGS = ("act", "approximate", "precomputed_constant")


def _is_gelu(form: Any, module: nn.Module) -> bool:
    is_torchs = isinstance(module, nn.GELU) and module.approximate == form
    return is_torchs or type(module).__name__ in _GELUS[form]


def _gelu_settings(module: nn.Module) -> tuple[Any, ...]:
    return tuple(comparable(vars(module).get(name)) for name in _GELU_SETTINGS)


def _prove_gelu(form: Any, module: nn.Module, stock: types.FunctionType) -> tuple[Any, str]:
    if reason := read_otherwise(module, stock, frozenset(_GELU_SETTINGS)):
        return None, reason
    if not reads_only(vars(module).get("act", F.gelu)):
        return None, "its code calls an `act` that is not torch's"
    bias = torch.zeros(64, dtype=torch.float32)
    proven, reason = proven_dtypes(
        lambda: stand_in(module), stock, lambda _, x: ops.bias_gelu(x, bias, form), len(bias)
    )
    return (_gelu_settings(module), frozenset(x for (x, _), _ in proven)), reason


def _gelu_forward(form: Any, details: tuple[tuple[Any, ...], frozenset[torch.dtype]]) -> Compute:
    settings, dtypes = details

    def compute(module: nn.Module, x: Any) -> Tensor | None:
        is_same = takes(x) and x.dtype in dtypes and _gelu_settings(module) == settings
        return approximate_gelu(x, form) if is_same else None

    return compute


Norm = Callable[[Tensor, Tensor, float], Tensor]
"""A function of the input, the weight and epsilon."""

_EPSILONS = frozenset({"variance_epsilon", "eps", "epsilon"})


def _shifted_rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """RMS norm as in Gemma: the weight is kept as its distance from 1, and there is one rounding, after the product."""
    return ops.rms_norm(x, 1.0 + weight.to(torch.promote_types(weight.dtype, torch.float32)), epsilon)


_NORMS: dict[str, Norm] = {
    "rms_norm": ops.rms_norm,
    "shifted_rms_norm": _shifted_rms_norm,
    "layer_norm": lambda x, weight, epsilon: ops.layer_norm(x, weight, epsilon=epsilon),
}


def _is_norm(module: nn.Module) -> bool:
    """True if its name is that of a normalization, and a weight of one dimension is all that it has."""
    name, weights = type(module).__name__.lower(), dict(module.named_parameters(recurse=False))
    is_called_so = "rmsnorm" in name or name.endswith("layernorm")
    has_one_weight = list(weights) == ["weight"] and not is_lazy(weights["weight"]) and weights["weight"].dim() == 1
    return (
        is_called_so
        and has_one_weight
        and type(module) not in torch_layers()  # their code calls torch's functions
        and next(module.children(), None) is None
        and next(module.buffers(), None) is None
    )


def _prove_norm(kind: str, module: Any, stock: types.FunctionType) -> tuple[Any, str]:
    """The name of the module's epsilon and the dtypes of its results, if it computes this kind."""
    norm, reason = _NORMS[kind], "no native op computes it"
    for name in sorted(_EPSILONS):
        epsilon = vars(module).get(name)
        if not isinstance(epsilon, float):
            continue
        if reason := read_otherwise(module, stock, frozenset({"weight", name})):
            continue
        dtypes, reason = proven_dtypes(
            lambda: with_weights(stand_in(module), {"weight": module.weight.shape}),
            stock,
            lambda small, x, epsilon=epsilon: norm(x, small.weight, epsilon),
            module.weight.shape[0],
            (max(epsilon, 0.0) ** 0.5,),
        )
        if not reason and name not in names_of(module, stock):
            reason = f"its code does not read `{name}`"
        return (name, dtypes), reason
    return None, reason


def _norm_forward(kind: str, proven: tuple[str, Proven]) -> Callable[[Any, Any], Tensor | None]:
    """The forward by the op of this kind, with the name of a module's epsilon and the dtypes that were proven."""
    norm, epsilon, results = _NORMS[kind], proven[0], dict(proven[1])

    def compute(module: Any, x: Any) -> Tensor | None:
        weight, value = module.weight, getattr(module, epsilon)
        if weight is None or not isinstance(value, float) or not takes_norm(x, weight.shape, weight):
            return None
        dtype = results.get((x.dtype, weight.dtype))
        return None if dtype is None else norm(x, weight, value).to(dtype)

    return compute


_RULES = (
    LayerRule("experts", "experts", is_experts, prove_experts, experts_forward, 3),
    LayerRule("linear", "linear", _is_linear, lambda *_: ((), ""), lambda _: _linear),
    LayerRule("convolution", "convolution", _is_slow_convolution, lambda *_: ((), ""), lambda _: _convolution),
    # Given to convolutions within a part, by its name, also to those of the rule before.
    LayerRule(IN_CHANNELS_LAST, "convolution", lambda _: False, lambda *_: ((), ""), lambda _: _convolution_in_a_part),
    LayerRule(
        "dropout",
        "dropout",
        lambda it: isinstance(it, nn.Dropout) and type(it).forward is nn.Dropout.forward,
        lambda *_: ((), "" if draws_as_torch() else "torch draws its numbers in another way on this machine"),
        lambda _: _dropout,
    ),
    LayerRule("conv1d", "linear", _is_conv1d, _prove_conv1d, lambda _: conv1d_forward),
    *(
        LayerRule(
            f"gelu_{form}",
            "bias_gelu",
            partial(_is_gelu, form),
            partial(_prove_gelu, form),
            partial(_gelu_forward, form),
        )
        for form in _GELUS
    ),
    *(
        LayerRule(
            kind, kind.removeprefix("shifted_"), _is_norm, partial(_prove_norm, kind), partial(_norm_forward, kind)
        )
        for kind in _NORMS
    ),
    *(
        LayerRule(name, name.removesuffix("_tanh"), is_gated, partial(prove_gated, gate), partial(gated_forward, gate))
        for name, gate in (("swiglu", SWIGLU), ("geglu", GEGLU), ("geglu_tanh", GEGLU_TANH))
    ),
)
LAYER_RULES = {rule.name: rule for rule in _RULES}
