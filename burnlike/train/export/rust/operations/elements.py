"""Functions of each element: arithmetic, activations, comparisons, choices by masks; and products of matrices."""

import math
from typing import Any

from torch import fx

from ..expressions import Expr
from ..printing import number
from ..tracing import torch_name
from ..values import name_of, rank_of, value_of
from .op import OPERATIONS, Op, common_kind, is_number, operation, same_shape

_ROWS = {
    "abs exp log sqrt sin cos tan sinh cosh tanh erf floor ceil round sign log1p square trunc": "{x:=}.{op}()",
    "atan asin acos asinh acosh atanh detach": "{x:=}.{op}()",
    "reciprocal": "{x:=}.recip()",
    "rsqrt": "{x:=}.sqrt().recip()",
    "log2": "{x:Float}.log().div_scalar(std::f64::consts::LN_2)",
    "log10": "{x:Float}.log().div_scalar(std::f64::consts::LN_10)",
    "expm1": "{x:Float}.exp().sub_scalar(1.0)",
    "isnan": "{x:Float}.is_nan()",
    "isinf": "{x:Float}.is_inf()",
    "isfinite": "{x:Float}.is_finite()",
    "logical_not": "{x:Bool}.bool_not()",
    "neg": "-{x:=}",
    "contiguous clone alias lift_fresh lift_fresh_copy detach_ positive resolve_conj _assert_tensor_metadata": "{x}",
    "relu silu sigmoid selu mish log_sigmoid relu6": "tensor::activation::{op}({x:Float})",
    "hardswish": "tensor::activation::hard_swish({x:Float})",
    "leaky_relu": "tensor::activation::leaky_relu({x:Float}, {negative_slope})",
    "elu celu": "tensor::activation::{op}({x:Float}, {alpha})",
    "softmax log_softmax glu": "tensor::activation::{op}({x:Float}, {dim})",
    "_softmax": "tensor::activation::softmax({x:Float}, {dim})",
    "_log_softmax": "tensor::activation::log_softmax({x:Float}, {dim})",
    "hardtanh": "tensor::activation::hardtanh({x:Float}, {min_val}, {max_val})",
    "hardsigmoid": f"tensor::activation::hard_sigmoid({{x:Float}}, {number(1 / 6)}, 0.5)",
    "softplus": "tensor::activation::softplus_with_threshold({x:Float}, {beta}, {threshold})",
    "threshold": "tensor::activation::threshold({x:Float}, {threshold}, {value})",
    "hardshrink": "tensor::activation::hard_shrink({x:Float}, {lambd})",
    "softshrink": "tensor::activation::soft_shrink({x:Float}, {lambd})",
    "prelu": "tensor::activation::prelu({x}, {weight})",
    "maximum max.other": "{x:=^}.max_pair({other:=^})",
    "minimum min.other": "{x:=^}.min_pair({other:=^})",
    "atan2": "{x:=^}.atan2({other:=^})",
    "fmod.Tensor": "{x:=^}.fmod({other:=^})",
    "outer ger": "{x}.unsqueeze_dim::<2>(1) * {vec2}.unsqueeze::<2>()",
}
OPERATIONS.update({name: template for names, template in _ROWS.items() for name in names.split()})


# Arithmetic


def _infix(o: Op, sign: str, a: Any, b: Any, alpha: Any = 1) -> Expr:
    """`a SIGN alpha * b` of tensors, or of a tensor and a number."""
    kind, level = "Int" if o.kind == "Bool" else o.kind, 1 if sign in "*/" else 2
    method = {"+": "add", "-": "sub", "*": "mul", "/": "div"}[sign]

    def operand(x: Any) -> Expr:
        return o.w.short(o.tensor(x, kind, o.rank), name_of(x))

    scalar = o.scalar(b, kind)
    if scalar is not None:
        if alpha != 1:
            scalar = o.number((b if is_number(b) else float(scalar)) * alpha, kind)
        if scalar.startswith("-") or " " in scalar:
            return operand(a).dot(f"{method}_scalar({scalar})")
        return Expr(f"{operand(a).within(level)} {sign} {scalar}")
    scalar, right = o.scalar(a, kind), operand(b)
    if alpha != 1:
        right = Expr(f"{right.within(1)} * {o.number(alpha, kind)}")
    if scalar is None:
        return Expr(f"{operand(a).within(level)} {sign} {right.within(level - 1)}")
    if sign in "+*":
        return Expr(f"{right.within(level)} {sign} {scalar}")
    turned, method, nothing = ("neg()", "add", 0) if sign == "-" else ("recip()", "mul", 1)
    return right.dot(turned if float(scalar) == nothing else f"{turned}.{method}_scalar({scalar})")


@operation("add", "sub", "mul")
def _arithmetic(o: Op, x: Any, other: Any, alpha: Any = 1) -> Expr:
    return _infix(o, {"add": "+", "sub": "-", "mul": "*"}[o.name], x, other, alpha)


@operation("rsub")
def _rsub(o: Op, x: Any, other: Any, alpha: Any = 1) -> Expr:
    return _infix(o, "-", other, x, alpha)


@operation("div", "true_divide", "divide", "floor_divide")
def _div(o: Op, x: Any, other: Any, rounding_mode: str | None = None) -> Expr:
    mode = "floor" if o.name == "floor_divide" else rounding_mode
    if mode == "floor" and o.kind == "Int":  # Burn's division of integers goes towards zero
        if not isinstance(other, int) or other <= 0:
            raise o.refused("a floor division by a tensor of integers")
        left = o.tensor(x, "Int", o.rank)
        return Expr(f"{left.within(2)} - {left.dot(f'remainder_scalar({other})')}").dot(f"div_scalar({other})")
    quotient = _infix(o, "/", x, other)
    return quotient if mode is None or o.kind != "Float" else quotient.dot(f"{mode}()")


@operation("mse_loss", "l1_loss")
def _loss(o: Op, x: Any, target: Any, reduction: int) -> Expr:
    apart = _infix(o, "-", x, target).dot("square()" if o.name == "mse_loss" else "abs()")
    return apart.dot(("", "mean()", "sum()")[reduction]) if reduction else apart


@operation("remainder")
def _remainder(o: Op, x: Any, other: Any) -> Expr:
    if is_number(other):
        return o.tensor(x, o.kind).dot(f"remainder_scalar({o.number(other, o.kind)})")
    return o.filled("{x:=^}.remainder({other:=^})")


@operation("pow")
def _pow(o: Op, x: Any, exponent: Any) -> Expr:
    if is_number(x):
        if o.kind != "Float" or x <= 0:
            raise o.refused("the power of a number by integers")
        return o.tensor(exponent, "Float").dot(f"mul_scalar({number(math.log(x))}).exp()")
    if not is_number(exponent):
        return o.filled(f"{{x:=^}}.pow{'f' if o.kind == 'Float' else 'i'}({{exponent:=^}})")
    special = {2: "square()", 0.5: "sqrt()"}.get(exponent)
    if special is None:
        is_whole = float(exponent).is_integer()
        special = f"powi_scalar({int(exponent)})" if is_whole else f"powf_scalar({number(exponent)})"
    return o.tensor(x, o.kind).dot(special)


@operation("clamp", "clip", "clamp_min", "clamp_max")
def _clamp(o: Op, x: Any, min: Any = None, max: Any = None) -> Expr:
    if not is_number(min) or not is_number(max):
        raise o.refused("clamp with tensors")
    expr = o.tensor(x, o.kind)
    if min is not None and max is not None:
        return expr.dot(f"clamp({o.number(min, o.kind)}, {o.number(max, o.kind)})")
    return expr.dot(f"clamp_min({o.number(min, o.kind)})" if max is None else f"clamp_max({o.number(max, o.kind)})")


# Activations and casts


@operation("gelu")
def _gelu(o: Op, x: Any, approximate: str) -> Expr:
    return o.filled(f"tensor::activation::gelu{'_approximate' * (approximate == 'tanh')}({{x:Float}})")


@operation("dropout", "feature_dropout", "alpha_dropout", "native_dropout")
def _dropout(o: Op, x: Any, p: float, train: bool) -> Expr:
    if train and p:
        raise o.refused("dropout in evaluation")
    return o.tensor(x)


@operation("to", "_to_copy", "type_as", "_to_dense")
def _to(o: Op, x: Any) -> Expr:
    return o.tensor(x, o.kind)  # all floats of a crate have one dtype, and so have all integers


# Comparisons and masks


@operation("eq", "ne", "lt", "le", "gt", "ge")
def _compare(o: Op, x: Any, other: Any) -> Expr:
    method = {"eq": "equal", "ne": "not_equal", "lt": "lower", "le": "lower_equal", "gt": "greater"}.get(o.name)
    method = method or "greater_equal"
    kind = common_kind(x, other)
    kind = "Int" if kind == "Bool" and "equal" not in (method, method.removeprefix("not_")) else kind
    if method == "equal" and kind == "Int" and isinstance(other, int) and not -(2**31) <= other < 2**31:
        return o.tensor(x, kind, o.rank).dot("zeros_like().bool()")  # no number of Burn's 32 bits is as large
    scalar = o.scalar(other, kind)
    if scalar is not None:
        return o.tensor(x, kind, o.rank).dot(f"{method}_{'elem' if kind == 'Bool' else 'scalar'}({scalar})")
    return o.tensor(x, kind, o.rank).dot(f"{method}({o.tensor(other, kind, o.rank)})")


@operation("bitwise_not")
def _not(o: Op, x: Any) -> Expr:
    return o.tensor(x).dot("bitwise_not()" if o.kind == "Int" else "bool_not()")


@operation(*(it.format(name) for name in ("and", "or", "xor") for it in ("logical_{}", "bitwise_{}", "__{}__")))
def _logical(o: Op, x: Any, other: Any) -> Expr:
    word = o.name.rpartition("_")[2] or o.name.strip("_")
    kind = "Bool" if o.name.startswith("logical") else o.kind
    if kind == "Bool" and word == "and":
        for one, rest in ((x, other), (other, x)):
            is_ones = isinstance(one, fx.Node) and torch_name(one) in ("new_ones", "ones")
            if is_ones and same_shape(rest, o.node):
                return o.tensor(rest)
    if is_number(other):
        if kind == "Bool":
            raise o.refused("a logical operation with a number")
        return o.tensor(x).dot(f"bitwise_{word}_scalar({int(other)})")
    method = f"{'bool' if kind == 'Bool' else 'bitwise'}_{word}"
    return o.tensor(x, kind, o.rank).dot(f"{method}({o.tensor(other, kind, o.rank)})")


@operation("masked_fill")
def _masked_fill(o: Op, x: Any, mask: Any, value: Any) -> Expr:
    scalar = o.scalar(value, o.kind)
    if scalar is None:
        raise o.refused("masked_fill with a tensor")
    return o.whole(x, o.kind).dot(f"mask_fill({o.whole(mask, 'Bool')}, {scalar})")


@operation("where")
def _where(o: Op, x: Any, y: Any = None, z: Any = None) -> Expr:
    if y is None:
        raise o.refused("where of a mask alone")
    kind, mask = o.kind, o.whole(x, "Bool")
    first, second = o.scalar(y, kind), o.scalar(z, kind)
    if first is not None and second is not None:
        like = mask.dot("float()" if kind == "Float" else "int()")
        return like.dot(f"full_like({second}).mask_fill({mask}, {first})")
    if first is not None:
        return o.whole(z, kind).dot(f"mask_fill({mask}, {first})")
    if second is not None:
        return o.whole(y, kind).dot(f"mask_fill({mask.dot('bool_not()')}, {second})")
    return o.whole(z, kind).dot(f"mask_where({mask}, {o.whole(y, kind)})")


@operation("fill")
def _fill(o: Op, x: Any, value: Any) -> Expr:
    scalar = o.scalar(value, o.kind)
    if scalar is None:
        raise o.refused("fill with a tensor")
    return o.tensor(x).dot(f"full_like({scalar})")


# Products


@operation("matmul", "bmm", "mm", "mv", "dot")
def _matrix(o: Op, x: Any, y: Any) -> Expr:
    kind, rank = o.kind, max(rank_of(x), rank_of(y), 2)
    is_row, is_column = value_of(x).dim() == 1, value_of(y).dim() == 1
    if is_row and is_column:
        return o.tensor(x, kind).dot(f"dot({o.tensor(y, kind)})")
    left = o.tensor(x, kind, rank)
    if is_column:
        right = o.tensor(y, kind).dot("unsqueeze_dim::<2>(1)")
        right = right if rank == 2 else right.dot(f"unsqueeze::<{rank}>()")
        return left.dot(f"matmul({right}).squeeze_dim::<{rank - 1}>({rank - 1})")
    product = left.dot(f"matmul({o.tensor(y, kind, rank)})")
    return product.dot(f"squeeze_dim::<{rank - 1}>({rank - 2})") if is_row else product


@operation("addmm", "baddbmm", "addmv")
def _addmm(o: Op, x: Any, y: Any, z: Any, beta: Any, alpha: Any) -> Expr:
    product, other = _matrix(o, y, z), o.tensor(x, o.kind, o.rank)
    product = product if alpha == 1 else Expr(f"{product.within(1)} * {number(alpha)}")
    if beta == 0:
        return product
    other = other if beta == 1 else Expr(f"{other.within(1)} * {number(beta)}")
    return Expr(f"{product.within(2)} + {other.within(1)}")


@operation("linear")
def _linear(o: Op, x: Any, weight: Any, bias: Any) -> Expr:
    matrix, turned = o.tensor(weight), ".val().transpose()"
    matrix = matrix.removesuffix(".transpose()") if matrix.endswith(turned) else matrix.dot("transpose()")
    bias_argument = o.optional(bias)
    return o.expr(f"tensor::module::linear({o.tensor(x)}, {matrix}, {bias_argument})")


@operation("einsum")
def _einsum(o: Op, equation: str, tensors: Any) -> Expr:
    inputs, _, output = equation.replace(" ", "").partition("->")
    if "..." in equation or not output:
        raise o.refused(f"einsum({equation!r})")
    terms = ", ".join(" ".join(it) for it in inputs.split(","))
    listed = ", ".join(o.tensor(tensor) for tensor in tensors)
    return o.expr(f'tensor::einsum!("{terms} -> {" ".join(output)}", {listed})')
