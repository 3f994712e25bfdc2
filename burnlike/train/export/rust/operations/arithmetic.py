"""Arithmetic, functions of each element, comparisons and products."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from ..expressions import Expr
from ..printing import number
from ..values import kind_of, name_of, rank_of, value_of
from .table import OPERATIONS, Operation, is_number, kind_of_all, number_of, operation, place_of, scalar_of, tensor_of


def _infix(sign: str, level: int, method: str) -> Operation:
    """`a SIGN b` of tensors, or of a tensor and a number."""

    def write(w: Any, a: Any, b: Any, alpha: Any = 1) -> Expr:
        kind, rank = kind_of(w.node), rank_of(w.node)
        kind = "Int" if kind == "Bool" else kind
        scalar = scalar_of(w, b, kind)
        if scalar is not None:
            if alpha != 1:
                scalar = number_of(w, (b if is_number(b) else float(scalar)) * alpha, kind)
            left = w.short(tensor_of(w, a, kind, rank), name_of(a))
            if scalar.startswith("-") or " " in scalar:
                return left.dot(f"{method}_scalar({scalar})")
            return Expr(f"{left.within(level)} {sign} {scalar}", level)
        scalar = scalar_of(w, a, kind)
        right = w.short(tensor_of(w, b, kind, rank), name_of(b))
        if alpha != 1:
            right = Expr(f"{right.within(1)} * {number_of(w, alpha, kind)}", 1)
        if scalar is not None:
            if sign in "+*":
                return Expr(f"{right.within(level)} {sign} {scalar}", level)
            if sign == "-":
                return right.dot("neg()") if float(scalar) == 0 else right.dot(f"neg().add_scalar({scalar})")
            return right.dot("recip()") if float(scalar) == 1 else right.dot(f"recip().mul_scalar({scalar})")
        left = w.short(tensor_of(w, a, kind, rank), name_of(a))
        return Expr(f"{left.within(level)} {sign} {right.within(level - 1)}", level)

    return write


for _name, _sign, _level in (("add", "+", 2), ("sub", "-", 2), ("mul", "*", 1)):
    OPERATIONS |= dict.fromkeys((f"aten.{_name}", f"aten.{_name}_"), _infix(_sign, _level, _name))


@operation("div", "true_divide", "floor_divide", "divide")
def _div(w: Any, a: Any, b: Any, rounding_mode: str | None = None) -> Expr:
    name = str(w.node.target)
    mode = "floor" if "floor_divide" in name else rounding_mode
    made: Any = _infix("/", 1, "div")(w, a, b)
    if mode is None:
        return made
    if kind_of(w.node) == "Float":
        return (
            made.dot("floor()" if mode == "floor" else "trunc()")
            if made.level == 0
            else Expr(f"({made.text})").dot("floor()" if mode == "floor" else "trunc()")
        )
    if mode == "floor" and not (is_number(b) and isinstance(b, int) and b > 0):
        raise w.refused("a floor division by a tensor of integers")
    if mode == "floor":  # Burn's division of integers goes towards zero
        left = tensor_of(w, a, "Int", rank_of(w.node))
        return Expr(f"({left.within(2)} - {left.dot(f'remainder_scalar({b})').text})").dot(f"div_scalar({b})")
    return made


@operation("mse_loss", "l1_loss")
def _loss(w: Any, a: Any, b: Any, reduction: int = 1) -> Expr:
    apart = Expr(f"({_infix('-', 2, 'sub')(w, a, b).text})").dot("square()" if "mse" in str(w.node.target) else "abs()")
    return apart.dot(("", "mean()", "sum()")[reduction]) if reduction else apart


@operation("rsub")
def _rsub(w: Any, a: Any, b: Any, alpha: Any = 1) -> Expr:
    return _infix("-", 2, "sub")(w, b, a) if alpha == 1 else _infix("-", 2, "sub")(w, b, a, alpha)  # type: ignore[return-value]


def _method(name: str, kind: str | None = None) -> Operation:
    return lambda w, x, *_, **__: tensor_of(w, x, kind or kind_of(w.node), 1).dot(f"{name}()")


for _torch, _burn in {
    **{it: it for it in (
        "abs", "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "erf", "floor", "ceil",
        "round", "sign", "log1p", "square", "trunc", "atan", "asin", "acos", "asinh", "acosh", "atanh", "detach",
    )},
    "reciprocal": "recip", "rsqrt": "sqrt().recip",
}.items():  # fmt: skip
    OPERATIONS |= dict.fromkeys((f"aten.{_torch}", f"aten.{_torch}_"), _method(_burn))
OPERATIONS["aten.log2"] = lambda w, x: tensor_of(w, x, "Float", 1).dot("log().div_scalar(std::f64::consts::LN_2)")
OPERATIONS["aten.log10"] = lambda w, x: tensor_of(w, x, "Float", 1).dot("log().div_scalar(std::f64::consts::LN_10)")
OPERATIONS["aten.expm1"] = lambda w, x: tensor_of(w, x, "Float", 1).dot("exp().sub_scalar(1.0)")
OPERATIONS["aten.isnan"] = lambda w, x: tensor_of(w, x, "Float", 1).dot("is_nan()")
OPERATIONS["aten.isinf"] = lambda w, x: tensor_of(w, x, "Float", 1).dot("is_inf()")
OPERATIONS["aten.isfinite"] = lambda w, x: tensor_of(w, x, "Float", 1).dot("is_finite()")


@operation("logical_not", "bitwise_not")
def _not(w: Any, x: Any) -> Expr:
    if kind_of(x) == "Int" and "bitwise" in str(w.node.target):
        return w.argument(x).dot("bitwise_not()")
    return tensor_of(w, x, "Bool", 1).dot("bool_not()")


@operation("neg", "neg_")
def _neg(w: Any, x: Any) -> Expr:
    return Expr(f"-{tensor_of(w, x, kind_of(w.node), 1).within(0)}", 1)


def _same(w: Any, x: Any, *_: Any, **__: Any) -> Expr:
    return w.argument(x)


OPERATIONS |= {
    f"aten.{name}": _same
    for name in ("contiguous", "clone", "alias", "lift_fresh_copy", "lift_fresh", "detach_",
                 "positive", "resolve_conj", "_assert_tensor_metadata")
}  # fmt: skip


@operation("dropout", "dropout_", "feature_dropout", "alpha_dropout", "native_dropout")
def _dropout(w: Any, x: Any, probability: float, is_training: bool) -> Expr:
    if is_training and probability:
        raise w.refused("dropout in evaluation")
    return w.argument(x)


@operation("to", "_to_copy", "type_as", "float", "_to_dense")
def _to(w: Any, x: Any, *_: Any, **__: Any) -> Expr:
    before, after = value_of(x).dtype, w.node.meta["val"].dtype
    found, kind = w.argument(x), kind_of(w.node)
    if before == after:
        return found
    if kind_of(x) != kind:
        return found.dot({"Float": "float()", "Int": "int()", "Bool": "bool()"}[kind])
    return found  # all floats of a crate have one dtype, and so have all integers


def _function(name: str, *extra: Callable[..., str]) -> Operation:
    """A function of Burn's activations."""

    def write(w: Any, x: Any, *arguments: Any, **keywords: Any) -> Expr:
        w.function.needs.add(f"burn::tensor::activation::{name}")
        texts = [it(w, x, *arguments, **keywords) for it in extra]
        return Expr(f"{name}({', '.join([tensor_of(w, x, 'Float', 1).text, *texts])})")

    return write


def _value(place: int, default: float, name: str = "") -> Callable[..., str]:
    def write(w: Any, x: Any, *arguments: Any, **keywords: Any) -> str:
        found = arguments[place] if place < len(arguments) else keywords.get(name, default)
        return number(float(found))

    return write


def _dim(w: Any, x: Any, dim: int = -1, *_: Any, **__: Any) -> str:
    return str(place_of(dim, x))


OPERATIONS |= {
    f"aten.{name}{inplace}": found
    for name, found in {
        "relu": _function("relu"), "silu": _function("silu"), "sigmoid": _function("sigmoid"),
        "selu": _function("selu"), "mish": _function("mish"), "log_sigmoid": _function("log_sigmoid"),
        "hardswish": _function("hard_swish"),
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


@operation("gelu", "gelu_")
def _gelu(w: Any, x: Any, approximate: str = "none") -> Expr:
    return _function("gelu_approximate" if approximate == "tanh" else "gelu")(w, x)  # type: ignore[return-value]


@operation("prelu")
def _prelu(w: Any, x: Any, alpha: Any) -> Expr:
    w.function.needs.add("burn::tensor::activation::prelu")
    return Expr(f"prelu({w.argument(x).text}, {w.argument(alpha).text})")


def _compare(method: str) -> Operation:
    def write(w: Any, a: Any, b: Any) -> Expr:
        kind = kind_of_all(a, b)
        kind = "Int" if kind == "Bool" and method not in ("equal", "not_equal") else kind
        rank = rank_of(w.node)
        if method == "equal" and kind == "Int" and isinstance(b, int) and not -(2**31) <= b < 2**31:
            return tensor_of(w, a, kind, rank).dot("zeros_like().bool()")  # no number of Burn's 32 bits is as large
        scalar = scalar_of(w, b, kind)
        if scalar is not None:
            end = "scalar" if method not in ("equal", "not_equal") or kind != "Bool" else "elem"
            return tensor_of(w, a, kind, rank).dot(f"{method}_{end}({scalar})")
        return tensor_of(w, a, kind, rank).dot(f"{method}({tensor_of(w, b, kind, rank).text})")

    return write


for _torch, _burn in {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "lower",
    "le": "lower_equal",
    "gt": "greater",
    "ge": "greater_equal",
}.items():
    OPERATIONS[f"aten.{_torch}"] = _compare(_burn)


def _is_ones(x: Any) -> bool:
    return isinstance(x, fx.Node) and str(x.target) in ("aten.new_ones.default", "aten.ones.default")


def _logical(method: str) -> Operation:
    def write(w: Any, a: Any, b: Any) -> Expr:
        bitwise = "bitwise" in str(w.node.target) or str(w.node.target).startswith("aten.__")
        kind = "Int" if bitwise and kind_of_all(a, b) == "Int" else "Bool"
        name = f"bitwise_{method}" if kind == "Int" else f"bool_{method}"
        if kind == "Bool" and method == "and":
            for one, other in ((a, b), (b, a)):
                if _is_ones(one) and str(value_of(other).shape) == str(value_of(w.node).shape):
                    return w.argument(other)
        if is_number(b):
            if kind == "Bool":
                raise w.refused("a logical operation with a number")
            return w.argument(a).dot(f"{name}_scalar({int(b)})")
        rank = rank_of(w.node)
        return tensor_of(w, a, kind, rank).dot(f"{name}({tensor_of(w, b, kind, rank).text})")

    return write


for _name in ("and", "or", "xor"):
    OPERATIONS |= dict.fromkeys(
        (f"aten.logical_{_name}", f"aten.bitwise_{_name}", f"aten.__{_name}__"), _logical(_name)
    )


@operation("pow")
def _pow(w: Any, x: Any, exponent: Any) -> Expr:
    kind = kind_of(w.node)
    if not is_number(x) and is_number(exponent):
        base = tensor_of(w, x, kind, 1)
        if exponent == 2:
            return base.dot("square()")
        if exponent == 0.5:
            return base.dot("sqrt()")
        if float(exponent).is_integer():
            return base.dot(f"powi_scalar({int(exponent)})")
        return base.dot(f"powf_scalar({number(exponent)})")
    if is_number(x):
        if kind != "Float" or x <= 0:
            raise w.refused("the power of a number by integers")
        return tensor_of(w, exponent, "Float", 1).dot(f"mul_scalar({number(math.log(x))}).exp()")
    rank = rank_of(w.node)
    name = "powf" if kind == "Float" else "powi"
    return tensor_of(w, x, kind, rank).dot(f"{name}({tensor_of(w, exponent, kind, rank).text})")


def _pair(method: str) -> Operation:
    def write(w: Any, a: Any, b: Any) -> Expr:
        kind, rank = kind_of(w.node), rank_of(w.node)
        if is_number(b):
            raise w.refused(f"{w.node.target} of a tensor and a number")
        return tensor_of(w, a, kind, rank).dot(f"{method}({tensor_of(w, b, kind, rank).text})")

    return write


OPERATIONS |= {
    "aten.maximum": _pair("max_pair"), "aten.minimum": _pair("min_pair"), "aten.max.other": _pair("max_pair"),
    "aten.min.other": _pair("min_pair"), "aten.atan2": _pair("atan2"), "aten.fmod.Tensor": _pair("fmod"),
}  # fmt: skip


@operation("remainder")
def _remainder(w: Any, a: Any, b: Any) -> Expr:
    kind = kind_of(w.node)
    if is_number(b):
        return tensor_of(w, a, kind, 1).dot(f"remainder_scalar({number_of(w, b, kind)})")
    return _pair("remainder")(w, a, b)  # type: ignore[return-value]


@operation("clamp", "clamp_", "clip", "clamp_min", "clamp_max", "clamp_min_", "clamp_max_")
def _clamp(w: Any, x: Any, low: Any = None, high: Any = None, min: Any = None, max: Any = None) -> Expr:
    name, kind = str(w.node.target), kind_of(w.node)
    low, high = low if min is None else min, high if max is None else max
    if "clamp_max" in name:
        low, high = None, low
    if not all(it is None or is_number(it) for it in (low, high)):
        raise w.refused("clamp with tensors")
    found = tensor_of(w, x, kind, 1)
    if low is not None and high is not None:
        return found.dot(f"clamp({number_of(w, low, kind)}, {number_of(w, high, kind)})")
    return found.dot(
        f"clamp_min({number_of(w, low, kind)})" if high is None else f"clamp_max({number_of(w, high, kind)})"
    )


def _matrix(w: Any, a: Any, b: Any) -> Expr:
    kind = kind_of(w.node)
    if value_of(a).dim() == 1 and value_of(b).dim() == 1:
        return tensor_of(w, a, kind, 1).dot(f"dot({tensor_of(w, b, kind, 1).text})")
    rank = max(rank_of(a), rank_of(b), 2)
    if value_of(a).dim() == 1:
        left = tensor_of(w, a, kind, 1).dot(f"unsqueeze::<{rank}>()")
        return left.dot(f"matmul({tensor_of(w, b, kind, rank).text}).squeeze_dim::<{rank - 1}>({rank - 2})")
    if value_of(b).dim() == 1:
        right = tensor_of(w, b, kind, 1).dot("unsqueeze_dim::<2>(1)")
        right = right if rank == 2 else right.dot(f"unsqueeze::<{rank}>()")
        return tensor_of(w, a, kind, rank).dot(f"matmul({right.text}).squeeze_dim::<{rank - 1}>({rank - 1})")
    return tensor_of(w, a, kind, rank).dot(f"matmul({tensor_of(w, b, kind, rank).text})")


OPERATIONS |= dict.fromkeys(("aten.matmul", "aten.bmm", "aten.mm", "aten.mv", "aten.dot"), _matrix)


@operation("addmm", "baddbmm", "addbmm", "addmv")
def _addmm(w: Any, bias: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Expr:
    product = _matrix(w, a, b)
    if alpha != 1:
        product = Expr(f"{product.within(1)} * {number(alpha)}", 1)
    other = tensor_of(w, bias, "Float", rank_of(w.node))
    if beta == 0:
        return product
    other = other if beta == 1 else Expr(f"{other.within(1)} * {number(beta)}", 1)
    return Expr(f"{product.within(2)} + {other.within(1)}", 2)


@operation("linear")
def _linear(w: Any, x: Any, weight: Any, bias: Any = None) -> Expr:
    w.function.needs.add("burn::tensor::module::linear")
    matrix = w.argument(weight)
    matrix = (
        Expr(matrix.text.removesuffix(".transpose()"))
        if matrix.text.endswith(".val().transpose()")
        else matrix.dot("transpose()")
    )
    given = "None" if bias is None else f"Some({w.argument(bias).text})"
    return Expr(f"linear({w.argument(x).text}, {matrix.text}, {given})")


@operation("outer", "ger")
def _outer(w: Any, a: Any, b: Any) -> Expr:
    left, right = w.argument(a).dot("unsqueeze_dim::<2>(1)"), w.argument(b).dot("unsqueeze::<2>()")
    return Expr(f"{left.text} * {right.text}", 1)


@operation("einsum")
def _einsum(w: Any, equation: str, tensors: Sequence[Any], path: Any = None) -> Expr:
    inputs, _, output = equation.replace(" ", "").partition("->")
    if "..." in equation or not output:
        raise w.refused(f"einsum({equation!r})")
    terms = ", ".join(" ".join(it) for it in inputs.split(","))
    w.function.needs.add("burn::tensor::einsum")
    given = ", ".join(w.argument(it).text for it in tensors)
    return Expr(f'einsum!("{terms} -> {" ".join(output)}", {given})')
