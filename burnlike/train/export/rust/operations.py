"""Functions of torch as Burn's: one row for each operation of a graph that has a counterpart."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from .expressions import Expr
from .printing import number

END = 2**62
"""A size at least as large means the end of a dimension."""


class Several(NamedTuple):
    """The results of an operation that gives several."""

    items: Sequence[Expr]


Operation = Callable[..., Any]
OPERATIONS: dict[str, Operation] = {}


def _operation(*names: str) -> Callable[[Operation], Operation]:
    def register(function: Operation) -> Operation:
        OPERATIONS.update({f"aten.{name}": function for name in names})
        return function

    return register


def _val(x: Any) -> Any:
    return x.meta["val"] if isinstance(x, fx.Node) else x


def _rank(x: Any) -> int:
    return max(_val(x).dim(), 1)


def _kind(x: Any) -> str:
    value = _val(x)
    if isinstance(value, torch.Tensor):
        return "Bool" if value.dtype == torch.bool else "Float" if value.is_floating_point() else "Int"
    return "Bool" if isinstance(value, bool) else "Float" if isinstance(value, float) else "Int"


def _at(dim: int, x: Any) -> int:
    return dim % _rank(x)


def _is_number(x: Any) -> bool:
    """True for a number of the program, and for a tensor that is one."""
    return not isinstance(x, fx.Node) or not isinstance(x.meta["val"], torch.Tensor)


def _number(w: Any, x: Any, kind: str) -> str:
    """A number as Rust: an integer, a float, or an expression of sizes as one of these."""
    value = _val(x)
    if isinstance(value, torch.SymInt):
        text = w.size(x)
        plain = text.isidentifier()
        return f"{text if plain else f'({text})'} as {'f64' if kind == 'Float' else 'i64'}"
    if isinstance(value, torch.SymFloat):
        raise w.refused("a number that depends on sizes")
    if kind == "Bool":
        return str(bool(value)).lower()
    if kind == "Int" and float(value).is_integer():
        if not -(2**31) <= value < 2**31:
            raise w.refused(f"the whole number {int(value)}, which Burn's of 32 bits are not")
        return str(int(value))
    return number(value)


def _as(w: Any, x: Any, kind: str, rank: int) -> Expr:
    """A tensor of a kind and at least of a rank."""
    found: Expr = w.argument(x)
    if _kind(x) != kind:
        found = found.dot({"Float": "float()", "Int": "int()", "Bool": "bool()"}[kind])
    return found.dot(f"unsqueeze::<{rank}>()") if _rank(x) < rank else found


def _literal(w: Any, x: Any) -> str | None:
    """The text of a tensor that is one number of the program's, known before it runs."""
    if not isinstance(x, fx.Node) or x.op != "placeholder" or x.meta["val"].dim():
        return None
    held = w.all.trace.values.get(x.name)
    return None if held is None or isinstance(held[1], torch.nn.Parameter) else w.expression(x).text


def _sum_kind(*values: Any) -> str:
    kinds = {_kind(it) for it in values}
    return "Float" if "Float" in kinds else "Int" if "Int" in kinds else "Bool"


def _infix(sign: str, level: int, method: str) -> Operation:
    """`a SIGN b` of tensors, or of a tensor and a number."""

    def write(w: Any, a: Any, b: Any, alpha: Any = 1) -> Expr:
        kind, rank = _kind(w.node), _rank(w.node)
        kind = "Int" if kind == "Bool" else kind
        scalar = _number(w, b, kind) if _is_number(b) else _literal(w, b)
        if scalar is not None:
            if alpha != 1:
                scalar = _number(w, (b if _is_number(b) else float(scalar)) * alpha, kind)
            left = w.short(_as(w, a, kind, rank), w_name(w, a))
            if scalar.startswith("-") or " " in scalar:
                return left.dot(f"{method}_scalar({scalar})")
            return Expr(f"{left.within(level)} {sign} {scalar}", level)
        scalar = _number(w, a, kind) if _is_number(a) else _literal(w, a)
        right = w.short(_as(w, b, kind, rank), w_name(w, b))
        if alpha != 1:
            right = Expr(f"{right.within(1)} * {_number(w, alpha, kind)}", 1)
        if scalar is not None:
            if sign in "+*":
                return Expr(f"{right.within(level)} {sign} {scalar}", level)
            if sign == "-":
                return right.dot("neg()") if float(scalar) == 0 else right.dot(f"neg().add_scalar({scalar})")
            return right.dot("recip()") if float(scalar) == 1 else right.dot(f"recip().mul_scalar({scalar})")
        left = w.short(_as(w, a, kind, rank), w_name(w, a))
        return Expr(f"{left.within(level)} {sign} {right.within(level - 1)}", level)

    return write


for _name, _sign, _level in (("add", "+", 2), ("sub", "-", 2), ("mul", "*", 1)):
    OPERATIONS |= dict.fromkeys((f"aten.{_name}", f"aten.{_name}_"), _infix(_sign, _level, _name))


@_operation("div", "true_divide", "floor_divide", "divide")
def _div(w: Any, a: Any, b: Any, rounding_mode: str | None = None) -> Expr:
    name = str(w.node.target)
    mode = "floor" if "floor_divide" in name else rounding_mode
    made: Any = _infix("/", 1, "div")(w, a, b)
    if mode is None:
        return made
    if _kind(w.node) == "Float":
        return made.dot("floor()" if mode == "floor" else "trunc()") if made.level == 0 else Expr(f"({made.text})").dot(
            "floor()" if mode == "floor" else "trunc()"
        )
    if mode == "floor" and not (_is_number(b) and isinstance(b, int) and b > 0):
        raise w.refused("a floor division by a tensor of integers")
    if mode == "floor":  # Burn's division of integers goes towards zero
        left = _as(w, a, "Int", _rank(w.node))
        return Expr(f"({left.within(2)} - {left.dot(f'remainder_scalar({b})').text})").dot(f"div_scalar({b})")
    return made


@_operation("mse_loss", "l1_loss")
def _loss(w: Any, a: Any, b: Any, reduction: int = 1) -> Expr:
    apart = Expr(f"({_infix('-', 2, 'sub')(w, a, b).text})").dot("square()" if "mse" in str(w.node.target) else "abs()")
    return apart.dot(("", "mean()", "sum()")[reduction]) if reduction else apart


@_operation("rsub")
def _rsub(w: Any, a: Any, b: Any, alpha: Any = 1) -> Expr:
    return _infix("-", 2, "sub")(w, b, a) if alpha == 1 else _infix("-", 2, "sub")(w, b, a, alpha)  # type: ignore[return-value]


def _method(name: str, kind: str | None = None) -> Operation:
    return lambda w, x, *_, **__: _as(w, x, kind or _kind(w.node), 1).dot(f"{name}()")


for _torch, _burn in {
    **{it: it for it in (
        "abs", "exp", "log", "sqrt", "neg", "sin", "cos", "tan", "sinh", "cosh", "tanh", "erf", "floor", "ceil", "round",
        "sign", "log1p", "square", "trunc", "atan", "asin", "acos", "asinh", "acosh", "atanh", "detach",
    )},
    "reciprocal": "recip", "rsqrt": "sqrt().recip", "log2": "log().div_scalar(std::f64::consts::LN_2).abs().abs",
    "bitwise_not": "bool_not", "logical_not": "bool_not",
}.items():  # fmt: skip
    OPERATIONS |= dict.fromkeys((f"aten.{_torch}", f"aten.{_torch}_"), _method(_burn))
OPERATIONS["aten.log2"] = lambda w, x: _as(w, x, "Float", 1).dot("log().div_scalar(std::f64::consts::LN_2)")
OPERATIONS["aten.log10"] = lambda w, x: _as(w, x, "Float", 1).dot("log().div_scalar(std::f64::consts::LN_10)")
OPERATIONS["aten.expm1"] = lambda w, x: _as(w, x, "Float", 1).dot("exp().sub_scalar(1.0)")
OPERATIONS["aten.isnan"] = lambda w, x: _as(w, x, "Float", 1).dot("is_nan()")
OPERATIONS["aten.isinf"] = lambda w, x: _as(w, x, "Float", 1).dot("is_inf()")
OPERATIONS["aten.isfinite"] = lambda w, x: _as(w, x, "Float", 1).dot("is_finite()")


@_operation("logical_not", "bitwise_not")
def _not(w: Any, x: Any) -> Expr:
    if _kind(x) == "Int" and "bitwise" in str(w.node.target):
        return w.argument(x).dot("bitwise_not()")
    return _as(w, x, "Bool", 1).dot("bool_not()")


@_operation("neg", "neg_")
def _neg(w: Any, x: Any) -> Expr:
    return Expr(f"-{_as(w, x, _kind(w.node), 1).within(0)}", 1)


def _same(w: Any, x: Any, *_: Any, **__: Any) -> Expr:
    return w.argument(x)


OPERATIONS |= {
    f"aten.{name}": _same
    for name in ("contiguous", "clone", "alias", "lift_fresh_copy", "lift_fresh", "detach_", "positive", "resolve_conj", "_assert_tensor_metadata")
}  # fmt: skip


@_operation("dropout", "dropout_", "feature_dropout", "alpha_dropout", "native_dropout")
def _dropout(w: Any, x: Any, probability: float, is_training: bool) -> Expr:
    if is_training and probability:
        raise w.refused("dropout in evaluation")
    return w.argument(x)


@_operation("to", "_to_copy", "type_as", "float", "_to_dense")
def _to(w: Any, x: Any, *_: Any, **__: Any) -> Expr:
    before, after = _val(x).dtype, w.node.meta["val"].dtype
    found, kind = w.argument(x), _kind(w.node)
    if before == after:
        return found
    if _kind(x) != kind:
        return found.dot({"Float": "float()", "Int": "int()", "Bool": "bool()"}[kind])
    return found  # all floats of a crate have one dtype, and so have all integers


def _function(name: str, *extra: Callable[..., str]) -> Operation:
    """A function of Burn's activations."""

    def write(w: Any, x: Any, *arguments: Any, **keywords: Any) -> Expr:
        w.function.needs.add(f"burn::tensor::activation::{name}")
        texts = [it(w, x, *arguments, **keywords) for it in extra]
        return Expr(f"{name}({', '.join([_as(w, x, 'Float', 1).text, *texts])})")

    return write


def _value(place: int, default: float, name: str = "") -> Callable[..., str]:
    def write(w: Any, x: Any, *arguments: Any, **keywords: Any) -> str:
        found = arguments[place] if place < len(arguments) else keywords.get(name, default)
        return number(float(found))

    return write


def _dim(w: Any, x: Any, dim: int = -1, *_: Any, **__: Any) -> str:
    return str(_at(dim, x))


OPERATIONS |= {
    f"aten.{name}{inplace}": found
    for name, found in {
        "relu": _function("relu"), "silu": _function("silu"), "sigmoid": _function("sigmoid"), "selu": _function("selu"),
        "mish": _function("mish"), "log_sigmoid": _function("log_sigmoid"), "hardswish": _function("hard_swish"),
        "relu6": _function("relu6"),
        "leaky_relu": _function("leaky_relu", _value(0, 0.01)), "elu": _function("elu", _value(0, 1.0)),
        "celu": _function("celu", _value(0, 1.0)), "softmax": _function("softmax", _dim),
        "log_softmax": _function("log_softmax", _dim), "_softmax": _function("softmax", _dim),
        "_log_softmax": _function("log_softmax", _dim), "glu": _function("glu", _dim),
        "hardtanh": _function("hardtanh", _value(0, -1.0), _value(1, 1.0)),
        "hardsigmoid": _function("hard_sigmoid", lambda *_: number(1 / 6), lambda *_: "0.5"),
        "softplus": _function("softplus_with_threshold", _value(0, 1.0), _value(1, 20.0)),
        "threshold": _function("threshold", _value(0, 0.0), _value(1, 0.0)),
        "hardshrink": _function("hard_shrink", _value(0, 0.5)), "softshrink": _function("soft_shrink", _value(0, 0.5)),
    }.items()
    for inplace in ("", "_")
}  # fmt: skip


@_operation("gelu", "gelu_")
def _gelu(w: Any, x: Any, approximate: str = "none") -> Expr:
    return _function("gelu_approximate" if approximate == "tanh" else "gelu")(w, x)  # type: ignore[return-value]


@_operation("prelu")
def _prelu(w: Any, x: Any, alpha: Any) -> Expr:
    w.function.needs.add("burn::tensor::activation::prelu")
    return Expr(f"prelu({w.argument(x).text}, {w.argument(alpha).text})")


def _compare(method: str) -> Operation:
    def write(w: Any, a: Any, b: Any) -> Expr:
        kind = _sum_kind(a, b)
        kind = "Int" if kind == "Bool" and method not in ("equal", "not_equal") else kind
        rank = _rank(w.node)
        if method == "equal" and kind == "Int" and isinstance(b, int) and not -(2**31) <= b < 2**31:
            return _as(w, a, kind, rank).dot("zeros_like().bool()")  # no number of Burn's 32 bits is as large
        scalar = _number(w, b, kind) if _is_number(b) else _literal(w, b)
        if scalar is not None:
            end = "scalar" if method not in ("equal", "not_equal") or kind != "Bool" else "elem"
            return _as(w, a, kind, rank).dot(f"{method}_{end}({scalar})")
        return _as(w, a, kind, rank).dot(f"{method}({_as(w, b, kind, rank).text})")

    return write


for _torch, _burn in {"eq": "equal", "ne": "not_equal", "lt": "lower", "le": "lower_equal", "gt": "greater", "ge": "greater_equal"}.items():
    OPERATIONS[f"aten.{_torch}"] = _compare(_burn)


def _is_ones(x: Any) -> bool:
    return isinstance(x, fx.Node) and str(x.target) in ("aten.new_ones.default", "aten.ones.default")


def _logical(method: str) -> Operation:
    def write(w: Any, a: Any, b: Any) -> Expr:
        bitwise = "bitwise" in str(w.node.target) or str(w.node.target).startswith("aten.__")
        kind = "Int" if bitwise and _sum_kind(a, b) == "Int" else "Bool"
        name = f"bitwise_{method}" if kind == "Int" else f"bool_{method}"
        if kind == "Bool" and method == "and":
            for one, other in ((a, b), (b, a)):
                if _is_ones(one) and str(_val(other).shape) == str(_val(w.node).shape):
                    return w.argument(other)
        if _is_number(b):
            if kind == "Bool":
                raise w.refused("a logical operation with a number")
            return w.argument(a).dot(f"{name}_scalar({int(b)})")
        rank = _rank(w.node)
        return _as(w, a, kind, rank).dot(f"{name}({_as(w, b, kind, rank).text})")

    return write


for _name in ("and", "or", "xor"):
    OPERATIONS |= dict.fromkeys((f"aten.logical_{_name}", f"aten.bitwise_{_name}", f"aten.__{_name}__"), _logical(_name))


@_operation("pow")
def _pow(w: Any, x: Any, exponent: Any) -> Expr:
    kind = _kind(w.node)
    if not _is_number(x) and _is_number(exponent):
        base = _as(w, x, kind, 1)
        if exponent == 2:
            return base.dot("square()")
        if exponent == 0.5:
            return base.dot("sqrt()")
        if float(exponent).is_integer():
            return base.dot(f"powi_scalar({int(exponent)})")
        return base.dot(f"powf_scalar({number(exponent)})")
    if _is_number(x):
        if kind != "Float" or x <= 0:
            raise w.refused("the power of a number by integers")
        return _as(w, exponent, "Float", 1).dot(f"mul_scalar({number(math.log(x))}).exp()")
    rank = _rank(w.node)
    name = "powf" if kind == "Float" else "powi"
    return _as(w, x, kind, rank).dot(f"{name}({_as(w, exponent, kind, rank).text})")


def _pair(method: str) -> Operation:
    def write(w: Any, a: Any, b: Any) -> Expr:
        kind, rank = _kind(w.node), _rank(w.node)
        if _is_number(b):
            raise w.refused(f"{w.node.target} of a tensor and a number")
        return _as(w, a, kind, rank).dot(f"{method}({_as(w, b, kind, rank).text})")

    return write


OPERATIONS |= {
    "aten.maximum": _pair("max_pair"), "aten.minimum": _pair("min_pair"), "aten.max.other": _pair("max_pair"),
    "aten.min.other": _pair("min_pair"), "aten.atan2": _pair("atan2"), "aten.fmod.Tensor": _pair("fmod"),
}  # fmt: skip


@_operation("remainder")
def _remainder(w: Any, a: Any, b: Any) -> Expr:
    kind = _kind(w.node)
    if _is_number(b):
        return _as(w, a, kind, 1).dot(f"remainder_scalar({_number(w, b, kind)})")
    return _pair("remainder")(w, a, b)  # type: ignore[return-value]


@_operation("clamp", "clamp_", "clip", "clamp_min", "clamp_max", "clamp_min_", "clamp_max_")
def _clamp(w: Any, x: Any, low: Any = None, high: Any = None, min: Any = None, max: Any = None) -> Expr:
    name, kind = str(w.node.target), _kind(w.node)
    low, high = low if min is None else min, high if max is None else max
    if "clamp_max" in name:
        low, high = None, low
    if not all(it is None or _is_number(it) for it in (low, high)):
        raise w.refused("clamp with tensors")
    found = _as(w, x, kind, 1)
    if low is not None and high is not None:
        return found.dot(f"clamp({_number(w, low, kind)}, {_number(w, high, kind)})")
    return found.dot(f"clamp_min({_number(w, low, kind)})" if high is None else f"clamp_max({_number(w, high, kind)})")


# Products


def _matrix(w: Any, a: Any, b: Any) -> Expr:
    kind = _kind(w.node)
    if _val(a).dim() == 1 and _val(b).dim() == 1:
        return _as(w, a, kind, 1).dot(f"dot({_as(w, b, kind, 1).text})")
    rank = max(_rank(a), _rank(b), 2)
    if _val(a).dim() == 1:
        left = _as(w, a, kind, 1).dot(f"unsqueeze::<{rank}>()")
        return left.dot(f"matmul({_as(w, b, kind, rank).text}).squeeze_dim::<{rank - 1}>({rank - 2})")
    if _val(b).dim() == 1:
        right = _as(w, b, kind, 1).dot("unsqueeze_dim::<2>(1)")
        right = right if rank == 2 else right.dot(f"unsqueeze::<{rank}>()")
        return _as(w, a, kind, rank).dot(f"matmul({right.text}).squeeze_dim::<{rank - 1}>({rank - 1})")
    return _as(w, a, kind, rank).dot(f"matmul({_as(w, b, kind, rank).text})")


OPERATIONS |= dict.fromkeys(("aten.matmul", "aten.bmm", "aten.mm", "aten.mv", "aten.dot"), _matrix)


@_operation("addmm", "baddbmm", "addbmm", "addmv")
def _addmm(w: Any, bias: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Expr:
    product = _matrix(w, a, b)
    if alpha != 1:
        product = Expr(f"{product.within(1)} * {number(alpha)}", 1)
    other = _as(w, bias, "Float", _rank(w.node))
    if beta == 0:
        return product
    other = other if beta == 1 else Expr(f"{other.within(1)} * {number(beta)}", 1)
    return Expr(f"{product.within(2)} + {other.within(1)}", 2)


@_operation("linear")
def _linear(w: Any, x: Any, weight: Any, bias: Any = None) -> Expr:
    w.function.needs.add("burn::tensor::module::linear")
    matrix = w.argument(weight)
    matrix = Expr(matrix.text.removesuffix(".transpose()")) if matrix.text.endswith(".val().transpose()") else matrix.dot("transpose()")
    given = "None" if bias is None else f"Some({w.argument(bias).text})"
    return Expr(f"linear({w.argument(x).text}, {matrix.text}, {given})")


@_operation("outer", "ger")
def _outer(w: Any, a: Any, b: Any) -> Expr:
    left, right = w.argument(a).dot("unsqueeze_dim::<2>(1)"), w.argument(b).dot("unsqueeze::<2>()")
    return Expr(f"{left.text} * {right.text}", 1)


@_operation("einsum")
def _einsum(w: Any, equation: str, tensors: Sequence[Any], path: Any = None) -> Expr:
    inputs, _, output = equation.replace(" ", "").partition("->")
    if "..." in equation or not output:
        raise w.refused(f"einsum({equation!r})")
    terms = ", ".join(" ".join(it) for it in inputs.split(","))
    w.function.needs.add("burn::tensor::einsum")
    given = ", ".join(w.argument(it).text for it in tensors)
    return Expr(f'einsum!("{terms} -> {" ".join(output)}", {given})')


# Shapes


@_operation("view", "reshape", "_unsafe_view", "unflatten", "view_as", "reshape_as", "flatten", "_reshape_alias")
def _view(w: Any, x: Any, *_: Any, **__: Any) -> Expr:
    shape = w.node.meta["val"].shape
    if w.node.target is torch.ops.aten.flatten.using_ints:
        first, last = (_at(it, x) for it in ([*w.node.args[1:], 0, -1] if len(w.node.args) == 1 else [*w.node.args[1:], -1])[:2])
        if first < last and _val(x).dim():
            return w.argument(x).dot(f"flatten::<{_rank(w.node)}>({first}, {last})")
        return w.argument(x)
    if not len(shape):
        return w.argument(x) if _rank(x) == 1 else w.argument(x).dot("reshape([1])")
    return w.argument(x).dot(f"reshape([{', '.join(map(w.size, shape))}])")


@_operation("transpose", "swapaxes", "swapdims", "transpose_")
def _transpose(w: Any, x: Any, a: int, b: int) -> Expr:
    return w.argument(x).dot(f"swap_dims({_at(a, x)}, {_at(b, x)})")


@_operation("t", "numpy_T", "mT", "adjoint")
def _t(w: Any, x: Any) -> Expr:
    return w.argument(x).dot("transpose()") if _rank(x) > 1 else w.argument(x)


@_operation("permute", "movedim")
def _permute(w: Any, x: Any, *dims: Any) -> Expr:
    if "movedim" in str(w.node.target):
        order = torch.empty([1] * 0 + [*range(1, _rank(x) + 1)]).movedim(*dims).shape
        return w.argument(x).dot(f"permute([{', '.join(str(it - 1) for it in order)}])")
    return w.argument(x).dot(f"permute([{', '.join(str(_at(it, x)) for it in dims[0])}])")


@_operation("unsqueeze", "unsqueeze_")
def _unsqueeze(w: Any, x: Any, dim: int) -> Expr:
    if not _val(x).dim():
        return w.argument(x)
    rank = _rank(x) + 1
    return w.argument(x).dot(f"unsqueeze_dim::<{rank}>({dim % rank})")


@_operation("squeeze", "squeeze_")
def _squeeze(w: Any, x: Any, dim: Any = None) -> Expr:
    dims = [dim] if isinstance(dim, int) else [*range(_rank(x))] if dim is None else dim
    dims = sorted({_at(it, x) for it in dims if _val(x).shape[_at(it, x)] == 1})
    if not dims or _rank(x) == 1:
        return w.argument(x)
    if len(dims) == _rank(x):
        return w.argument(x).dot("reshape([1])")
    if len(dims) == 1:
        return w.argument(x).dot(f"squeeze_dim::<{_rank(x) - 1}>({dims[0]})")
    return w.argument(x).dot(f"squeeze_dims::<{_rank(x) - len(dims)}>(&[{', '.join(map(str, dims))}])")


@_operation("expand", "expand_as", "broadcast_to", "expand_copy")
def _expand(w: Any, x: Any, *_: Any, **__: Any) -> Expr:
    if [*map(str, _val(x).shape)] == [*map(str, w.node.meta["val"].shape)]:
        return w.argument(x)
    return w.argument(x).dot(f"expand([{', '.join(map(w.size, w.node.meta['val'].shape))}])")


@_operation("broadcast_tensors")
def _broadcast(w: Any, tensors: Sequence[Any]) -> Several:
    rank, shape = max(map(_rank, tensors)), ", ".join(map(w.size, w.node.meta["val"][0].shape))
    return Several([_as(w, it, _kind(it), rank).dot(f"expand([{shape}])") if _val(it).shape != made.shape else w.argument(it)
                    for it, made in zip(tensors, w.node.meta["val"], strict=True)])  # fmt: skip


@_operation("repeat", "tile")
def _repeat(w: Any, x: Any, counts: Sequence[Any]) -> Expr:
    rank = _rank(w.node)
    found = _as(w, x, _kind(x), rank)
    counts = [1] * (rank - len(counts)) + [*counts]
    return found.dot(f"repeat(&[{', '.join(map(w.size, counts))}])")


@_operation("repeat_interleave.self_int")
def _repeat_interleave(w: Any, x: Any, repeats: Any, dim: int | None = None, **_: Any) -> Expr:
    if dim is None:
        raise w.refused("repeat_interleave of all elements")
    at, rank = _at(dim, x), _rank(x)
    shape = w.node.meta["val"].shape
    tail = f"repeat_dim({at + 1}, {w.size(repeats)}).reshape([{', '.join(map(w.size, shape))}])"
    return w.argument(x).dot(f"unsqueeze_dim::<{rank + 1}>({at + 1}).{tail}")


@_operation("cat", "concat", "stack", "hstack", "vstack")
def _cat(w: Any, tensors: Sequence[Any], dim: int = 0) -> Expr:
    kind, rank = _kind(w.node), _rank(w.node)
    kept = [it for it in tensors if _val(it).dim() != 1 or _val(it).shape[0] != 0]
    is_stack = "stack" in str(w.node.target)
    texts = ", ".join(_as(w, it, kind, 1).text for it in kept)
    if is_stack and not _val(tensors[0]).dim():
        return Expr(f"Tensor::cat(vec![{texts}], 0)")
    name = f"Tensor::stack::<{rank}>" if is_stack else "Tensor::cat"
    return Expr(f"{name}(vec![{texts}], {dim % rank})")


@_operation("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_split", "unsafe_chunk")
def _split(w: Any, x: Any, *arguments: Any, **keywords: Any) -> Several:
    values = w.node.meta["val"]
    name = str(w.node.target)
    given = arguments[0] if "unbind" in name and arguments else arguments[1] if len(arguments) > 1 else keywords.get("dim", 0)
    dim = _at(given, x)
    found, items, start = w.argument(x), list[Expr](), "0"
    total: Any = 0
    if len(values) > 1 and not _is_plain(found):
        found = w.let(found, w_name(w, x))
    for at, it in enumerate(values):
        if "unbind" in name:
            part = found.dot(f"slice_dim({dim}, {at}..{at + 1})")
            items.append(part.dot(f"squeeze_dim::<{_rank(it)}>({dim})") if _rank(x) > 1 else part)
            continue
        total = total + it.shape[dim]
        end = w.size(total)
        items.append(found.dot(f"slice_dim({dim}, {start}..{end})"))
        start = end
    return Several(items)


def w_name(w: Any, x: Any) -> str:
    from .functions import name_of

    return name_of(x)


def _is_plain(found: Expr) -> bool:
    return found.text.startswith("\ue000") and found.text.endswith("\ue001") and found.text.count("\ue000") == 1


def _range(w: Any, start: Any, end: Any, length: Any) -> str:
    """A range of Rust; negative numbers count from the end, as in Burn."""
    first = "0" if start is None else w.size(start)
    is_end = end is None or (isinstance(_val(end), int) and _val(end) >= END) or str(_val(end)) == str(length)
    last = "" if is_end else w.size(end)
    first = "" if first == "0" and not last else first
    return f"{first}..{last}"


@_operation("slice", "narrow")
def _slice(w: Any, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Expr:
    if "narrow" in str(w.node.target):
        end = start + end
    at = _at(dim, x)
    text = _range(w, start, end, _val(x).shape[at])
    if text == ".." and step == 1:
        return w.argument(x)
    if isinstance(_val(end), int) and isinstance(_val(x).shape[at], int) and text.partition("..")[2]:
        last = _val(x).shape[at]
        stop = min(_val(end) if _val(end) >= 0 else _val(end) + last, last)
        text = f"{text.partition('..')[0] or 0}..{stop}"
    if step != 1:
        w.function.needs.add("burn::tensor::s")
        return w.argument(x).dot(f"slice_dim({at}, s![{text};{step}])")
    return w.argument(x).dot(f"slice_dim({at}, {text})")


@_operation("select")
def _select(w: Any, x: Any, dim: int, index: Any) -> Expr:
    at = _at(dim, x)
    if isinstance(_val(index), int):
        text = f"{index}.." if index == -1 else f"{index}..{index + 1}"
    else:
        text = f"{w.size(index)}..{w.size(index)} + 1"
    found = w.argument(x).dot(f"slice_dim({at}, {text})")
    return found if _rank(x) == 1 else found.dot(f"squeeze_dim::<{_rank(x) - 1}>({at})")


@_operation("diff")
def _diff(w: Any, x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Expr:
    at, kind = _at(dim, x), _kind(x)
    if n != 1 or kind == "Bool":
        raise w.refused("diff of a higher order, or of bools")
    texts = [_as(w, it, kind, 1).text for it in (prepend, x, append) if it is not None]
    joined = w.let(Expr(texts[0] if len(texts) == 1 else f"Tensor::cat(vec![{', '.join(texts)}], {at})"), "joined")
    return Expr(f"{joined.text}.slice_dim({at}, 1..) - {joined.text}.slice_dim({at}, ..-1)", 2)


@_operation("_weight_norm")
def _weight_norm(w: Any, direction: Any, length: Any, dim: int = 0) -> Expr:
    v = w.let(w.argument(direction), "direction")
    dims = [it for it in range(_rank(direction)) if it != dim % _rank(direction)]
    norm = w.let(v.dot(f"square().sum_dims(&{dims}).sqrt()"), "norm")
    return Expr(f"{v.text} * ({w.argument(length).text} / {norm.text})", 1)


@_operation("slice_scatter", "select_scatter")
def _slice_scatter(w: Any, x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Expr:
    at, rank = _at(dim, x), _rank(x)
    values = w.argument(source)
    if "select" in str(w.node.target):
        text = f"{start}.." if start == -1 else f"{start}..{start + 1}"
        values = values.dot(f"unsqueeze_dim::<{rank}>({at})") if rank > 1 else values
    else:
        text = _range(w, start, end, _val(x).shape[at])
        if text == ".." and step == 1:
            return values
        text = text if step == 1 else f"{text};{step}"
    w.function.needs.add("burn::tensor::s")
    slices = ", ".join([".."] * at + [text] + [".."] * (rank - at - 1))
    return w.argument(x).dot(f"slice_assign(s![{slices}], {values.text})")


@_operation("copy", "copy_")
def _copy(w: Any, x: Any, source: Any, non_blocking: bool = False) -> Expr:
    return _expand(w, source)


@_operation("fill")
def _fill(w: Any, x: Any, value: Any) -> Expr:
    scalar = _number(w, value, _kind(w.node)) if _is_number(value) else _literal(w, value)
    if scalar is None:
        raise w.refused("fill with a tensor")
    return w.argument(x).dot(f"full_like({scalar})")


@_operation("flip")
def _flip(w: Any, x: Any, dims: Sequence[int]) -> Expr:
    return w.argument(x).dot(f"flip([{', '.join(str(_at(it, x)) for it in dims)}])")


@_operation("roll")
def _roll(w: Any, x: Any, shifts: Any, dims: Any = ()) -> Expr:
    shifts, dims = ([it] if isinstance(it, int) else it for it in (shifts, dims))
    if not dims:
        raise w.refused("roll without dimensions")
    places = ", ".join(str(_at(it, x)) for it in dims)
    return w.argument(x).dot(f"roll(&[{', '.join(map(w.size, shifts))}], &[{places}])")


@_operation("constant_pad_nd", "pad")
def _pad(w: Any, x: Any, widths: Sequence[Any], *rest: Any, **keywords: Any) -> Expr:
    mode = rest[0] if rest and isinstance(rest[0], str) else keywords.get("mode", "constant")
    value = (rest[-1] if rest and not isinstance(rest[-1], str) else keywords.get("value", 0)) or 0
    pairs = [(widths[at], widths[at + 1]) for at in range(0, len(widths), 2)]
    if any(isinstance(it, int) and it < 0 for pair in pairs for it in pair):
        found = w.argument(x)
        if any(it > 0 for pair in pairs for it in pair):
            raise w.refused("padding of negative width")
        for at, (before, after) in enumerate(pairs):
            if before or after:
                found = found.dot(f"slice_dim({_rank(x) - 1 - at}, {-before}..{after if after else ''})")
        return found
    if mode == "circular":
        raise w.refused("circular padding")
    kinds = {"constant": "Constant", "reflect": "Reflect", "replicate": "Edge"}
    w.function.needs.add("burn::tensor::ops::PadMode")
    filled = f"PadMode::Constant({number(float(value))})" if mode == "constant" else f"PadMode::{kinds[mode]}"
    listed = ", ".join(f"({w.size(a)}, {w.size(b)})" for a, b in pairs[::-1])
    if _kind(x) == "Bool":
        raise w.refused("padding of bools")
    return w.argument(x).dot(f"pad([{listed}], {filled})")


@_operation("reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d")
def _named_pad(w: Any, x: Any, widths: Sequence[Any]) -> Expr:
    return _pad(w, x, widths, "reflect" if "reflection" in str(w.node.target) else "replicate")


@_operation("unfold")
def _unfold(w: Any, x: Any, dim: int, size: int, step: int) -> Expr:
    return w.argument(x).dot(f"unfold::<{_rank(x) + 1}, _>({_at(dim, x)}, {size}, {step})")


@_operation("tril", "triu")
def _triangle(w: Any, x: Any, diagonal: int = 0) -> Expr:
    name = "tril" if "tril" in str(w.node.target) else "triu"
    if _kind(x) == "Bool":
        return w.argument(x).dot(f"int().{name}({diagonal}).bool()")
    return w.argument(x).dot(f"{name}({diagonal})")


@_operation("pixel_shuffle")
def _pixel_shuffle(w: Any, x: Any, factor: int) -> Expr:
    batch, channels, height, width = _val(x).shape
    sizes = [batch, channels // factor**2, factor, factor, height, width]
    first = f"reshape([{', '.join(map(w.size, sizes))}]).permute([0, 1, 4, 2, 5, 3])"
    return w.argument(x).dot(f"{first}.reshape([{', '.join(map(w.size, w.node.meta['val'].shape))}])")


# Choices


@_operation("masked_fill", "masked_fill_")
def _masked_fill(w: Any, x: Any, mask: Any, value: Any) -> Expr:
    kind, rank = _kind(w.node), _rank(w.node)
    scalar = _number(w, value, kind) if _is_number(value) else _literal(w, value)
    if scalar is None:
        raise w.refused("masked_fill with a tensor")
    found, hidden = _full(w, x, kind), _as(w, mask, "Bool", rank)
    if [*map(str, _val(mask).shape)] != [*map(str, w.node.meta["val"].shape)]:
        hidden = hidden.dot(f"expand([{', '.join(map(w.size, w.node.meta['val'].shape))}])")
    return found.dot(f"mask_fill({hidden.text}, {scalar})")


def _full(w: Any, x: Any, kind: str) -> Expr:
    """A tensor with the shape of the result."""
    found, shape = _as(w, x, kind, _rank(w.node)), w.node.meta["val"].shape
    if [*map(str, _val(x).shape)] != [*map(str, shape)]:
        found = found.dot(f"expand([{', '.join(map(w.size, shape))}])")
    return found


@_operation("where")
def _where(w: Any, condition: Any, a: Any, b: Any) -> Expr:
    kind = _kind(w.node)
    mask = _full(w, condition, "Bool")
    for chosen, other, turned in ((a, b, mask), (b, a, None)):
        scalar = _number(w, chosen, kind) if _is_number(chosen) else _literal(w, chosen)
        if scalar is not None and (not _is_number(other) and _literal(w, other) is None):
            hidden = turned or mask.dot("bool_not()")
            return _full(w, other, kind).dot(f"mask_fill({hidden.text}, {scalar})")
    values = [_number(w, it, kind) if _is_number(it) else _literal(w, it) for it in (a, b)]
    if None not in values:
        like = mask.dot("float()" if kind == "Float" else "int()")
        return like.dot(f"full_like({values[1]}).mask_fill({mask.text}, {values[0]})")
    return _full(w, b, kind).dot(f"mask_where({mask.text}, {_full(w, a, kind).text})")


@_operation("gather")
def _gather(w: Any, x: Any, dim: int, index: Any, **_: Any) -> Expr:
    return w.argument(x).dot(f"gather({_at(dim, x)}, {w.argument(index).text})")


@_operation("scatter_add", "scatter")
def _scatter(w: Any, x: Any, dim: int, index: Any, source: Any, **_: Any) -> Expr:
    kind, is_bool = "Add" if "add" in str(w.node.target) else "Assign", _kind(x) == "Bool"
    w.function.needs.add("burn::tensor::IndexingUpdateOp")
    target, indices = w.argument(x), w.let(w.argument(index), "indices")
    if _is_number(source):
        values = indices.dot(f"full_like({_number(w, int(source), 'Int')})")
        values = values.dot("float()") if _kind(x) == "Float" else values
        if not float(source).is_integer():
            raise w.refused(f"scatter of {source}")
    else:
        values = w.argument(source).dot("int()") if is_bool else w.argument(source)
    target = w.let(target.dot("int()") if is_bool else target, "target")
    found = target.dot(f"scatter({_at(dim, x)}, {indices.text}, {values.text}, IndexingUpdateOp::{kind})")
    return found.dot("bool()") if is_bool else found


@_operation("index_select")
def _index_select(w: Any, x: Any, dim: int, index: Any) -> Expr:
    return w.argument(x).dot(f"select({_at(dim, x)}, {w.argument(index).text})")


@_operation("embedding")
def _embedding(w: Any, weight: Any, indices: Any, *_: Any, **__: Any) -> Expr:
    rank = _rank(indices)
    if _val(indices).dim() == 1:
        return w.argument(weight).dot(f"select(0, {w.argument(indices).text})")
    shape = ", ".join(map(w.size, w.node.meta["val"].shape))
    flat = w.argument(indices).dot(f"flatten::<1>(0, {rank - 1})")
    return w.argument(weight).dot(f"select(0, {flat.text}).reshape([{shape}])")


@_operation("index")
def _index(w: Any, x: Any, indices: Sequence[Any]) -> Expr:
    places = [at for at, it in enumerate(indices) if it is not None]
    given, shape = [indices[at] for at in places], _val(x).shape
    if any(_kind(it) != "Int" for it in given) or places != [*range(places[0], places[-1] + 1)]:
        raise w.refused("an index of bools, or of dimensions that are apart")
    first, rank, out = places[0], max(map(_rank, given)), w.node.meta["val"].shape
    if _is_grid(given, shape[first : places[-1] + 1]):  # as `x[arange(n)[:, None], arange(m)]`
        return w.argument(x).dot(f"reshape([{', '.join(map(w.size, out))}])")
    flat = _of_end(w, given[0], shape[first], rank)
    for at, it in zip(places[1:], given[1:], strict=True):
        flat = Expr(f"{flat.within(1)} * {_number(w, shape[at], 'Int')} + {_of_end(w, it, shape[at], rank).within(1)}", 2)
    flat = flat.dot(f"flatten::<1>(0, {rank - 1})") if rank > 1 else flat
    found = w.argument(x).dot("int()") if _kind(x) == "Bool" else w.argument(x)  # Burn's select of bools has another dtype
    found = found.dot(f"flatten::<{_rank(x) - len(places) + 1}>({first}, {places[-1]})") if len(places) > 1 else found
    found = found.dot(f"select({first}, {flat.text}){'.bool()' if _kind(x) == 'Bool' else ''}")
    return found if rank == 1 or not len(out) else found.dot(f"reshape([{', '.join(map(w.size, out))}])")


def _is_grid(indices: Sequence[Any], sizes: Sequence[Any]) -> bool:
    """True if indices are all those of their dimensions, each along an axis of its own, in the order of dimensions."""
    axes = list[int]()
    for index in indices:
        rank, source = max(_rank(it) for it in indices), index
        while isinstance(source, fx.Node) and str(source.target).startswith("aten.unsqueeze"):
            source = source.args[0]
        wide = [at for at, it in enumerate(_val(index).shape, rank - _rank(index)) if str(it) != "1"]
        if not str(source.target).startswith("aten.arange") or len(source.args) > 1 or len(wide) != 1:
            return False
        axes += wide
    # The batch of another input has a symbol of its own. Where it is another size, the reshape panics.
    counts = [next(it for it in _val(index).shape if str(it) != "1") for index in indices]
    is_all = all(
        str(a) == str(b) or (isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt) and a.node.hint == b.node.hint)
        for a, b in zip(counts, sizes, strict=True)
    )
    return is_all and axes == sorted(set(axes)) and len(axes) > 1


def _of_end(w: Any, index: Any, size: Any, rank: int) -> Expr:
    """An index in which negative numbers, where there may be some, are counted from the end."""
    found = _as(w, index, "Int", rank)
    return found if _is_natural(w, index) else found.dot(f"remainder_scalar({_number(w, size, 'Int')})")


_KEEP_SIGN = {"add", "mul", "unsqueeze", "squeeze", "view", "reshape", "expand", "repeat", "slice", "select", "cumsum", "to", "_to_copy", "flatten"}


def _is_natural(w: Any, x: Any) -> bool:
    """True for integers that the program has, and that are not negative; those of inputs are taken for such."""
    if not isinstance(x, fx.Node) or isinstance(_val(x), torch.SymInt):
        return not isinstance(x, int) or x >= 0
    if x.op == "placeholder":
        held = w.all.trace.values.get(x.name)
        return held is None or not bool((held[1] < 0).any())
    name = str(x.target).removeprefix("aten.").partition(".")[0]
    if name in ("ne", "eq", "arange", "argmax", "argmin") or _kind(x) == "Bool":
        return name != "arange" or all(_is_natural(w, it) for it in x.args)
    tensors = [it for it in x.args if isinstance(it, fx.Node)] + ([x.args[1]] if name in ("add", "mul") else [])
    return name in _KEEP_SIGN and all(_is_natural(w, it) for it in tensors)


# Reductions


def _dims(dims: Any, x: Any) -> list[int]:
    listed = [] if dims is None else [dims] if isinstance(dims, int) else [*dims]
    return sorted({_at(it, x) for it in listed}) or [*range(_rank(x))]


def _reduce(method: str) -> Operation:
    def write(w: Any, x: Any, dims: Any = None, keepdim: bool = False, **keywords: Any) -> Expr:
        dims, keepdim = keywords.get("dim", dims), keywords.get("keepdim", keepdim)
        kind = _kind(w.node) if method in ("sum", "prod") else "Float" if method == "mean" else _kind(x)
        found, places = _as(w, x, kind, 1), _dims(dims, x)
        if len(places) == _rank(x) and not keepdim:
            return found.dot(f"{method}()")
        if len(places) == 1:
            found = found.dot(f"{method}_dim({places[0]})")
        else:
            found = found.dot(f"{method}_dims(&[{', '.join(map(str, places))}])")
        return found if keepdim else _squeezed(found, places, _rank(x))

    return write


def _squeezed(found: Expr, places: Sequence[int], rank: int) -> Expr:
    if len(places) == rank:
        return found.dot("reshape([1])") if rank > 1 else found
    if len(places) == 1:
        return found.dot(f"squeeze_dim::<{rank - 1}>({places[0]})")
    return found.dot(f"squeeze_dims::<{rank - len(places)}>(&[{', '.join(map(str, places))}])")


OPERATIONS |= {
    "aten.sum": _reduce("sum"), "aten.mean": _reduce("mean"), "aten.prod": _reduce("prod"), "aten.amax": _reduce("max"),
    "aten.amin": _reduce("min"), "aten.max": _reduce("max"), "aten.min": _reduce("min"),
}  # fmt: skip


@_operation("any", "all")
def _any(w: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Expr:
    name = "any" if "any" in str(w.node.target) else "all"
    found = _as(w, x, "Bool", 1)
    if dim is None:
        return found.dot(f"{name}()")
    dims = _dims(dim, x)
    for it in dims:
        found = found.dot(f"{name}_dim({it})")
    return found if keepdim else _squeezed(found, dims, _rank(x))


@_operation("max.dim", "min.dim", "topk", "sort", "median.dim")
def _with_indices(w: Any, x: Any, *arguments: Any, **keywords: Any) -> Several:
    name = str(w.node.target).removeprefix("aten.").partition(".")[0]
    found, rank = w.argument(x), _rank(x)
    users = {it.args[1] for it in w.node.users if it in w.all.live}
    if name in ("topk", "sort"):
        if name == "topk":
            k, rest = arguments[0], arguments[1:]
            dim, largest = rest[0] if rest else keywords.get("dim", -1), keywords.get("largest", rest[1] if len(rest) > 1 else True)
            if not largest:
                raise w.refused("topk of the smallest")
            call = f"topk_with_indices({k}, {_at(dim, x)})"
        else:
            arguments = tuple(it for it in arguments if it is not None and not isinstance(it, bool)) + tuple(it for it in arguments if isinstance(it, bool))
            dim = next((it for it in arguments if type(it) is int), keywords.get("dim", -1))
            descending = keywords.get("descending", any(it is True for it in arguments))
            call = f"sort_{'descending_' * bool(descending)}with_indices({_at(dim, x)})"
        finish: Callable[[Expr], Expr] = lambda it: it  # noqa: E731
    else:
        at, keepdim = _at(arguments[0], x), (arguments[1] if len(arguments) > 1 else keywords.get("keepdim", False))
        call = f"{name}_dim_with_indices({at})" if name != "median" else f"median_with_indices({at})"
        finish = lambda it: it if keepdim else _squeezed(it, [at], rank)  # noqa: E731
        if users == {0}:
            return Several([finish(found.dot(f"{name}_dim({at})" if name != "median" else f"median({at})")), found])
    from .expressions import Statement

    values, indices = w.value("values"), w.value("indices")
    head = f"let ({values.expr.text}, {indices.expr.text}) = "
    w.function.statements.append(Statement([values, indices], found.dot(call).text, head=head))
    places = indices.expr if _kind(x) == "Float" else indices.expr.dot(f"cast({values.expr.text}.dtype())")
    return Several([finish(values.expr), finish(places)])


@_operation("argmax", "argmin")
def _arg(w: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Expr:
    name, found = str(w.node.target).removeprefix("aten.").partition(".")[0], w.argument(x)
    if dim is None:
        found = found.dot("reshape([-1])") if _rank(x) > 1 else found
        return _in_dtype(w, x, found, lambda it: it.dot(f"{name}(0)"))
    made = _in_dtype(w, x, found, lambda it: it.dot(f"{name}({_at(dim, x)})"))
    return made if keepdim else _squeezed(made, [_at(dim, x)], _rank(x))


@_operation("argsort")
def _argsort(w: Any, x: Any, *arguments: Any, dim: int = -1, descending: bool = False, **_: Any) -> Expr:
    dim = next((it for it in arguments if type(it) is int), dim)
    call = "argsort_descending" if descending or True in arguments[-1:] else "argsort"
    return _in_dtype(w, x, w.argument(x), lambda it: it.dot(f"{call}({_at(dim, x)})"))


def _in_dtype(w: Any, x: Any, found: Expr, made: Callable[[Expr], Expr]) -> Expr:
    """Indices in the dtype of the device's integers, which Burn gives for floats only."""
    if _kind(x) == "Float":
        return made(found)
    found = found if _is_plain(found) else w.let(found, "x")
    return made(found).dot(f"cast({found.text}.dtype())")


@_operation("var", "std")
def _var(w: Any, x: Any, dims: Any = None, *rest: Any, correction: Any = 1, keepdim: bool = False, unbiased: bool = True) -> Expr:
    places = _dims(None if isinstance(dims, bool) else dims, x)
    if rest:
        correction, keepdim = (1 if rest[0] else 0), (rest[1] if len(rest) > 1 else keepdim)
    correction = 1 if correction is None else correction if unbiased else 0
    found, rank = w.argument(x), _rank(x)
    if len(places) == 1 and correction in (0, 1):
        found = found.dot(f"{'var' if correction else 'var_bias'}({places[0]})")
    elif not all(isinstance(_val(x).shape[it], int) for it in places) and correction:
        raise w.refused("a variance over sizes that vary")
    else:
        listed = ", ".join(map(str, places))
        count = math.prod(int(_val(x).shape[it]) for it in places) if correction else 0
        mean = found.dot(f"mean_dims(&[{listed}])")
        centered = Expr(f"({found.within(2)} - {mean.within(1)})").dot(f"square().mean_dims(&[{listed}])")
        found = centered.dot(f"mul_scalar({number(count / (count - correction))})") if correction else centered
    found = found.dot("sqrt()") if "std" in str(w.node.target) else found
    return found if keepdim else _squeezed(found, places, rank)


@_operation("linalg_vector_norm", "norm")
def _norm(w: Any, x: Any, p: Any = 2, dims: Any = None, keepdim: bool = False, **_: Any) -> Expr:
    places, found = _dims(dims, x), w.argument(x)
    listed = ", ".join(map(str, places))
    p = 2 if p is None else p
    if p == 1:
        found = found.dot(f"abs().sum_dims(&[{listed}])")
    elif p == 2:
        found = found.dot(f"square().sum_dims(&[{listed}]).sqrt()")
    elif p == math.inf:
        found = found.dot(f"abs().max_dims(&[{listed}])")
    else:
        raise w.refused(f"the norm of order {p}")
    return found if keepdim else _squeezed(found, places, _rank(x))


OPERATIONS["aten.cumsum"] = lambda w, x, dim, **_: _as(w, x, _kind(w.node), 1).dot(f"cumsum({_at(dim, x)})")
OPERATIONS["aten.cumprod"] = lambda w, x, dim, **_: _as(w, x, _kind(w.node), 1).dot(f"cumprod({_at(dim, x)})")


@_operation("logsumexp")
def _logsumexp(w: Any, x: Any, dims: Any, keepdim: bool = False) -> Expr:
    places, found = _dims(dims, x), w.argument(x)
    if len(places) != 1:
        raise w.refused("logsumexp over several dimensions")
    found = found if _is_plain(found) else w.let(found, "scores")
    largest = w.let(found.dot(f"max_dim({places[0]})"), "largest")
    total = Expr(f"({found.text} - {largest.text})").dot(f"exp().sum_dim({places[0]}).log()")
    made = Expr(f"{total.text} + {largest.text}", 2)
    return made if keepdim else _squeezed(Expr(f"({made.text})"), places, _rank(x))


# Tensors from nothing


def _made(call: str, *, takes_value: bool = False) -> Operation:
    def write(w: Any, shape: Any, *arguments: Any, **keywords: Any) -> Expr:
        name = str(w.node.target)
        kind = _kind(w.node)
        sizes = ", ".join(map(w.size, w.node.meta["val"].shape)) or "1"
        rank = _rank(w.node)
        given = "" if not takes_value else f", {_number(w, arguments[-1] if arguments else keywords['fill_value'], 'Int' if kind == 'Bool' else kind)}"
        tensor = f"Tensor::<{rank}{'' if kind == 'Float' else ', Int' if kind == 'Int' else ', Int'}>"
        del name
        found = Expr(f"{tensor}::{call}([{sizes}]{given}, &device)")
        return found.dot("bool()") if kind == "Bool" else found

    return write


OPERATIONS |= {
    f"aten.{prefix}{name}{suffix}": _made(call, takes_value=call == "full")
    for name, call in {"zeros": "zeros", "ones": "ones", "empty": "zeros", "full": "full", "scalar_tensor": "full"}.items()
    for prefix in ("", "new_")
    for suffix in ("", "_like")
}


@_operation("scalar_tensor")
def _scalar_tensor(w: Any, value: Any, **_: Any) -> Expr:
    return _made("full", takes_value=True)(w, [], value)  # type: ignore[return-value]


@_operation("arange")
def _arange(w: Any, *arguments: Any, **_: Any) -> Expr:
    start, end, step = (0, arguments[0], 1) if len(arguments) == 1 else (*arguments, 1)[:3]
    if not all(isinstance(_val(it), int | torch.SymInt) for it in (start, end, step)):
        raise w.refused("arange of floats")

    def text(value: Any) -> str:
        found = w.size(value)
        is_size = isinstance(_val(value), torch.SymInt)
        return (f"{found} as i64" if found.isidentifier() else f"({found}) as i64") if is_size else found

    if step == 1:
        found = Expr(f"Tensor::<1, Int>::arange({text(start)}..{text(end)}, &device)")
    else:
        found = Expr(f"Tensor::<1, Int>::arange_step({text(start)}..{text(end)}, {step}, &device)")
    return found.dot("float()") if _kind(w.node) == "Float" else found


@_operation("eye")
def _eye(w: Any, size: Any, *rest: Any, **_: Any) -> Expr:
    return Expr(f"Tensor::<2>::eye({w.size(size)}, &device)")


@_operation("one_hot")
def _one_hot(w: Any, x: Any, count: int = -1) -> Expr:
    if count < 0:
        raise w.refused("one_hot without the number of classes")
    return w.argument(x).dot(f"one_hot::<{_rank(x) + 1}>({count})")


# Layers as functions


@_operation("layer_norm", "native_layer_norm")
def _layer_norm(w: Any, x: Any, shape: Sequence[int], gamma: Any = None, beta: Any = None, epsilon: float = 1e-5, *_: Any) -> Any:
    found, rank = w.argument(x), _rank(x)
    dims = [*range(rank - len(shape), rank)]
    if len(shape) == 1 and gamma is not None:
        w.function.needs.add("burn::tensor::module::layer_norm")
        given = "None" if beta is None else f"Some({w.argument(beta).text})"
        return Expr(f"layer_norm({found.text}, {w.argument(gamma).text}, {given}, {number(epsilon)})")
    made = _normalized(w, found, dims, epsilon)
    return _scaled(w, made, gamma, beta, rank)


def _normalized(w: Any, x: Expr, dims: Sequence[int], epsilon: float) -> Expr:
    x = x if _is_plain(x) else w.let(x, "x")
    listed = ", ".join(map(str, dims))
    centered = w.let(Expr(f"{x.text} - {x.dot(f'mean_dims(&[{listed}])').text}", 2), "centered")
    variance = w.let(centered.dot(f"square().mean_dims(&[{listed}])"), "variance")
    return Expr(f"{centered.text} / ({variance.text} + {number(epsilon)}).sqrt()", 1)


def _scaled(w: Any, x: Expr, gamma: Any, beta: Any, rank: int, shape: str = "") -> Expr:
    for it, sign, level in ((gamma, "*", 1), (beta, "+", 2)):
        if it is not None:
            other = w.argument(it)
            if shape:
                other = other.dot(f"reshape([{shape}])")
            elif _rank(it) < rank:
                other = other.dot(f"unsqueeze::<{rank}>()")
            x = w.let(x, "normalized") if w.width(x) > 36 else x
            x = Expr(f"{x.within(level)} {sign} {other.text}", level)
    return x


@_operation("rms_norm")
def _rms_norm(w: Any, x: Any, shape: Sequence[int], gamma: Any = None, epsilon: float | None = None) -> Expr:
    if len(shape) != 1:
        raise w.refused("rms_norm over several dimensions")
    found, rank = w.argument(x), _rank(x)
    found = found if _is_plain(found) else w.let(found, "x")
    epsilon = torch.finfo(_val(x).dtype).eps if epsilon is None else epsilon
    mean = w.let(found.dot(f"square().mean_dim({rank - 1})"), "mean_square")
    made = Expr(f"{found.text} / ({mean.text} + {number(epsilon)}).sqrt()", 1)
    return _scaled(w, made, gamma, None, rank)


@_operation("group_norm")
def _group_norm(w: Any, x: Any, groups: int, gamma: Any = None, beta: Any = None, epsilon: float = 1e-5, *_: Any) -> Expr:
    shape = [*_val(x).shape]
    sizes = ", ".join(map(w.size, shape))
    batch, channels = w.size(shape[0]), shape[1]
    grouped = w.let(w.argument(x).dot(f"reshape([{batch} as i64, {groups}, -1])"), "grouped")
    made = w.let(_normalized(w, grouped, [2], epsilon), "normalized").dot(f"reshape([{sizes}])")
    ones = ", ".join(["1", str(channels)] + ["1"] * (len(shape) - 2))
    return _scaled(w, made, gamma, beta, len(shape), ones)


@_operation("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm")
def _batch_norm(w: Any, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, *rest: Any) -> Expr:
    if "legit" in str(w.node.target) or mean is None or gamma is None:
        raise w.refused("batch_norm without its running statistics or its weights")
    w.function.needs.add("burn::tensor::module::batch_norm")
    given = ", ".join(w.argument(it).text for it in (x, gamma, beta, mean, variance))
    return Expr(f"batch_norm({given}, {number(rest[2])})")


@_operation("scaled_dot_product_attention")
def _attention(
    w: Any, query: Any, key: Any, value: Any, mask: Any = None, dropout: float = 0.0, is_causal: bool = False,
    *, scale: float | None = None, enable_gqa: bool = False,
) -> Expr:  # fmt: skip
    rank = _rank(query)
    q, k, v = (w.argument(it) for it in (query, key, value))
    if enable_gqa and _val(query).shape[-3] != _val(key).shape[-3]:
        count = int(_val(query).shape[-3]) // int(_val(key).shape[-3])
        sizes = [*_val(key).shape[:-3], _val(query).shape[-3], *_val(key).shape[-2:]]
        tail = f"repeat_dim({rank - 2}, {count}).reshape([{', '.join(map(w.size, sizes))}])"
        k, v = (w.let(it.dot(f"unsqueeze_dim::<{rank + 1}>({rank - 2}).{tail}"), name) for it, name in ((k, "key"), (v, "value")))
    size = _val(query).shape[-1]
    factor = 1 / math.sqrt(int(size)) if scale is None else scale
    product = w.short(q.dot(f"matmul({k.dot(f'swap_dims({rank - 2}, {rank - 1})').text})"), "scores")
    scores = Expr(f"{product.text} * {number(factor)}", 1)
    rows, columns = _val(query).shape[-2], _val(key).shape[-2]
    full = ", ".join(map(w.size, [*_val(query).shape[:-2], rows, columns]))
    hidden: Expr | None = None
    if is_causal:
        scores = w.let(scores, "scores")
        hidden = w.let(Expr(f"Tensor::<2, Bool>::tril_mask([{w.size(rows)}, {w.size(columns)}], 0, &device)"), "hidden")
        scores = scores.dot(f"mask_fill({hidden.dot(f'unsqueeze::<{rank}>().expand([{full}])').text}, f64::NEG_INFINITY)")
    elif mask is not None and _kind(mask) == "Bool":
        scores = w.let(scores, "scores")
        hidden = w.let(_as(w, mask, "Bool", rank).dot(f"bool_not().expand([{full}])"), "hidden")
        scores = scores.dot(f"mask_fill({hidden.text}, f64::NEG_INFINITY)")
    elif mask is not None:
        mask = w.let(_as(w, mask, "Float", rank), "mask")
        hidden = mask.dot(f"equal_elem(f64::NEG_INFINITY).expand([{full}])")
        scores = Expr(f"{scores.text} + {mask.text}", 2)
    w.function.needs.add("burn::tensor::activation::softmax")
    weights = w.let(Expr(f"softmax({w.let(scores, 'scores').text}, {rank - 1})"), "weights")
    if hidden is not None and not is_causal:  # where all is hidden, torch's weights are zeros, and a softmax has none
        weights = w.let(weights.dot(f"mask_fill({hidden.text}, 0.0)"), "weights")
    return weights.dot(f"matmul({v.text})")


def _windows(values: Any, count: int) -> list[Any]:
    listed = [values] if isinstance(values, int) else [*values]
    return listed * count if len(listed) == 1 else listed


@_operation("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "convolution")
def _conv(w: Any, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *rest: Any, **keywords: Any) -> Expr:
    name = str(w.node.target).removeprefix("aten.").partition(".")[0]
    count = _rank(x) - 2
    if name == "convolution":
        raise w.refused("a convolution that another operation was made of")
    is_transposed = "transpose" in name
    names = ["output_padding", "groups", "dilation"] if is_transposed else ["dilation", "groups"]
    given = dict(zip(names, rest, strict=False)) | keywords
    dilation = _windows(given.get("dilation", 1), count)
    if isinstance(padding, str):
        kernel = _val(weight).shape[2:]
        total = [d * (int(k) - 1) for d, k in zip(dilation, kernel, strict=True)] if padding == "same" else [0] * count
        if any(it % 2 for it in total):
            raise w.refused("padding of unequal ends")
        padding = [it // 2 for it in total]
    lists = [_windows(it, count) for it in (stride, padding)]
    if is_transposed:
        lists.append(_windows(given.get("output_padding", 0), count))
    lists.append(dilation)
    options = "ConvTransposeOptions" if is_transposed else "ConvOptions"
    function = f"{'conv_transpose' if is_transposed else 'conv'}{count}d"
    w.function.needs |= {f"burn::tensor::module::{function}", f"burn::tensor::ops::{options}"}
    texts = [f"[{', '.join(map(str, it))}]" for it in lists]
    made = w.let(Expr(f"{options}::new({', '.join(texts)}, {given.get('groups', 1)})"), "options")
    last = "None" if bias is None else f"Some({w.argument(bias).text})"
    return Expr(f"{function}({w.argument(x).text}, {w.argument(weight).text}, {last}, {made.text})")


@_operation("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d")
def _adaptive(w: Any, x: Any, sizes: Any) -> Expr:
    count = _rank(x) - 2
    name = f"adaptive_avg_pool{count}d"
    if not count:
        raise w.refused("a pool without a batch")
    w.function.needs.add(f"burn::tensor::module::{name}")
    listed = _windows(sizes, count)
    text = w.size(listed[0]) if count == 1 else f"[{', '.join(map(w.size, listed))}]"
    return Expr(f"{name}({w.argument(x).text}, {text})")


@_operation("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "max_pool2d_with_indices")
def _pool(w: Any, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, *rest: Any, **keywords: Any) -> Any:
    name = str(w.node.target).removeprefix("aten.").partition(".")[0].removesuffix("_with_indices")
    count, is_max = int(name[-2]), name.startswith("max")
    if _rank(x) != count + 2:
        raise w.refused("a pool without a batch")
    names = ["dilation", "ceil_mode"] if is_max else ["ceil_mode", "count_include_pad", "divisor_override"]
    given = dict(zip(names, rest, strict=False)) | keywords
    if given.get("divisor_override"):
        raise w.refused("divisor_override")
    kernel = _windows(kernel, count)
    options = f"{'Max' if is_max else 'Avg'}PoolOptions"
    w.function.needs |= {f"burn::tensor::module::{name}", f"burn::tensor::ops::{options}"}
    made = f"{options}::new({kernel}).with_stride({_windows(stride, count) if stride else kernel})"
    sides = _windows(padding, count)
    if any(sides):
        made += f".with_padding({sides})"
    dilation = _windows(given.get("dilation", 1), count)
    if any(it != 1 for it in dilation):
        made += f".with_dilation({dilation})"
    if given.get("ceil_mode"):
        made += ".with_ceil_mode(true)"
    if not is_max and given.get("count_include_pad") is False:
        made += ".with_count_include_pad(false)"
    return Expr(f"{name}({w.argument(x).text}, {w.let(Expr(made), 'options').text})")


@_operation("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_nearest1d", "upsample_linear1d")
def _upsample(w: Any, x: Any, sizes: Any = None, *rest: Any, **keywords: Any) -> Expr:
    name = str(w.node.target).partition(".")[2]
    if _rank(x) != 4:
        raise w.refused(name)
    mode = {"nearest": "Nearest", "bilinear": "Bilinear", "bicubic": "Bicubic"}[name.partition("_")[2].partition("2")[0]]
    corners = bool(rest[0]) if rest and mode != "Nearest" else False
    height, width = w.node.meta["val"].shape[2:]
    w.function.needs |= {f"burn::tensor::{it}" for it in ("module::interpolate", "ops::InterpolateMode", "ops::InterpolateOptions")}
    made = f"InterpolateOptions::new(InterpolateMode::{mode}).with_align_corners({str(corners).lower()})"
    options = w.let(Expr(f"{made}.with_output_size([{w.size(height)}, {w.size(width)}])"), "options")
    return Expr(f"interpolate({w.argument(x).text}, {options.text})")


@_operation("cosine_similarity")
def _cosine(w: Any, a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Expr:
    w.function.needs.add("burn::nn::CosineSimilarityConfig")
    rank = _rank(w.node)
    made = w.let(Expr(f"CosineSimilarityConfig::new().with_dim({dim}).with_eps({number(eps)}).init()"), "similarity")
    del rank
    return Expr(f"{made.text}.forward({w.argument(a).text}, {w.argument(b).text})")
