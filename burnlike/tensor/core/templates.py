"""Bodies that rows of a table share. A row's copy has other words in place of these:

`spec.ops.operation`, `"operation"`: the backend's function; `operation_dim` is its form along a dimension.
`"method"`: the name of the method. `"Title"`: the operation's name in messages.
Arguments have the names of the family's signature, in its order.

Results are made by `new`, not by `wrap` or `like`: a call of these takes 25 ns, a tenth of a small operation's own
time. One function for five operations, with the backend's looked up by name, would take 60 ns more.
"""

from typing import Any

from torch.nn import Parameter

from ..._torch_compat.compiler import new
from .arguments import along, axis, each_dim, whole
from .kinds import Float
from .operands import (
    SMALL,
    compare_mixed,
    compare_scalar,
    computed,
    fail,
    float_spec,
    match,
    scalar as checked_scalar,
    tensor_operand,
)


def unary(self: Any) -> Any:
    """One operand; the element type stays."""
    spec = self.spec
    out = new(spec.tensor)
    out.inner = spec.ops.operation(self.inner)
    out.spec = spec
    return out


def unary_in_autocast(self: Any) -> Any:
    """One operand; torch's autocast may choose another element type."""
    spec = self.spec
    out = new(spec.tensor)
    out.inner = inner = spec.ops.operation(self.inner)
    out.spec = spec if spec.wide or inner.dtype is spec.dtype else spec.family[inner.dtype][spec.rank]
    return out


def predicate(self: Any) -> Any:
    """One operand, a Bool result."""
    spec = self.spec
    out = new(spec.tensor)
    out.inner = spec.ops.operation(self.inner)
    out.spec = spec.bool
    return out


def binary(self: Any, other: Any) -> Any:
    """Two operands, the other a tensor, a torch tensor or a number; the usual ones are taken without a call."""
    spec = result = self.spec
    kind = type(other)
    if kind is spec.tensor and other.spec is spec:
        other = other.inner
    elif not (kind is Parameter and other.dtype is spec.dtype and other.ndim == spec.rank and spec.tracks):
        other, result = match("operation", spec, other)
    out = new(spec.tensor)
    try:
        out.inner = spec.ops.operation(self.inner, other)
    except Exception as error:
        fail("operation", error, self.inner, other)
    out.spec = result
    return out


def binary_in_autocast(self: Any, other: Any) -> Any:
    """As `binary`; autocast may choose another element type than that of the operands."""
    spec = result = self.spec
    if type(other) is spec.tensor and other.spec is spec:
        other = other.inner
    else:
        other, result = match("operation", spec, other)
    out = new(spec.tensor)
    try:
        out.inner = inner = spec.ops.operation(self.inner, other)
    except Exception as error:
        fail("operation", error, self.inner, other)
    out.spec = result if result.wide or inner.dtype is result.dtype else result.family[inner.dtype][result.rank]
    return out


def with_scalar(self: Any, scalar: Any) -> Any:
    """A number as the other operand, which the element type must be able to hold."""
    spec = self.spec
    kind = type(scalar)
    if (kind is not float or spec.kind is not Float) and (kind is not int or not 0 <= scalar <= SMALL):
        scalar = checked_scalar("operation", spec, scalar)
    out = new(spec.tensor)
    try:
        out.inner = inner = spec.ops.operation(self.inner, scalar)
    except Exception as error:
        fail("operation", error, self.inner)
    out.spec = spec if spec.wide or inner.dtype is spec.dtype else spec.family[inner.dtype][spec.rank]
    return out


def pair(self: Any, other: Any) -> Any:
    """Two tensors, never a number."""
    spec = self.spec
    value = tensor_operand("operation", spec, other)
    out = new(spec.tensor)
    try:
        out.inner = inner = spec.ops.operation(self.inner, value)
    except Exception as error:
        fail("operation", error, self.inner, value)
    out.spec = spec if inner.dtype is spec.dtype else spec.family[inner.dtype][spec.rank]
    return out


def comparison(self: Any, other: Any) -> Any:
    """As `binary`, with a Bool result."""
    spec = self.spec
    if type(other) is not spec.tensor or other.spec is not spec:
        return compare_mixed("operation", self, other)
    out = new(spec.tensor)
    try:
        out.inner = spec.ops.operation(self.inner, other.inner)
    except Exception as error:
        fail("operation", error, self.inner, other.inner)
    out.spec = spec.bool
    return out


def comparison_with_scalar(self: Any, value: Any) -> Any:
    """A comparison with a number, never with a tensor."""
    return compare_scalar("operation", self, value)


def any_or_all(self: Any, dim: None = None, keepdim: None = None) -> Any:
    """All elements, a Bool of shape `[1]`."""
    if dim is not None or keepdim is not None:
        raise whole("method", dim)
    spec = self.spec
    out = new(spec.tensor)
    out.inner = spec.ops.operation(self.inner)
    out.spec = spec.bool.ranks[1]
    return out


def any_or_all_dim(self: Any, dim: Any) -> Any:
    """One dimension, kept with size 1; a Bool result."""
    spec = self.spec
    out = new(spec.tensor)
    out.inner = spec.ops.operation(self.inner, axis("Title", dim, spec.rank))
    out.spec = spec.bool
    return out


def total(self: Any, dim: None = None, keepdim: None = None) -> Any:
    """Sum or product of all elements, of shape `[1]`."""
    if dim is not None or keepdim is not None:
        raise whole("method", dim)
    spec = self.spec
    out = new(spec.tensor)
    # torch's sum over one dimension is the faster one.
    out.inner = inner = (
        spec.ops.operation_dim(self.inner, 0, True) if spec.rank == 1 else spec.ops.operation(self.inner)
    )
    out.spec = spec.ranks[1] if spec.wide or inner.dtype is spec.dtype else spec.family[inner.dtype][1]
    return out


def total_dim(self: Any, dim: Any) -> Any:
    """Sums or products along a dimension, kept with size 1."""
    spec = self.spec
    if type(dim) is not int or not 0 <= dim < spec.rank:
        dim = axis("Title", dim, spec.rank)
    out = new(spec.tensor)
    out.inner = inner = spec.ops.operation(self.inner, dim, True)
    out.spec = spec if spec.wide or inner.dtype is spec.dtype else spec.family[inner.dtype][spec.rank]
    return out


def running(self: Any, dim: Any) -> Any:
    """Results so far along a dimension."""
    spec = self.spec
    if type(dim) is not int or not 0 <= dim < spec.rank:
        dim = axis("Title", dim, spec.rank)
    out = new(spec.tensor)
    out.inner = inner = spec.ops.operation(self.inner, dim)
    out.spec = spec if spec.wide or inner.dtype is spec.dtype else spec.family[inner.dtype][spec.rank]
    return out


def extreme(self: Any, dim: None = None, keepdim: None = None) -> Any:
    """The extreme of all elements, of shape `[1]`; torch refuses an empty tensor."""
    if dim is not None or keepdim is not None:
        raise whole("method", dim)
    spec = self.spec
    out = new(spec.tensor)
    try:
        out.inner = spec.ops.operation(self.inner)
    except Exception as error:
        fail("method", error, self.inner)
    out.spec = spec.ranks[1]
    return out


def extreme_dim(self: Any, dim: Any) -> Any:
    """Extremes along a dimension, kept with size 1."""
    spec = self.spec
    if type(dim) is not int or not 0 <= dim < spec.rank:
        dim = axis("Title", dim, spec.rank)
    out = new(spec.tensor)
    try:
        out.inner = spec.ops.operation(self.inner, dim)
    except Exception as error:
        fail("method", error, self.inner)
    out.spec = spec
    return out


def extreme_dims(self: Any, dims: Any) -> Any:
    """Extremes over several dimensions, kept with size 1; the tensor itself for none."""
    spec = self.spec
    axes = each_dim("Title", dims, spec.rank)
    if not axes:
        return self
    out = new(spec.tensor)
    out.inner = computed("method", spec.ops.operation, self.inner, axes)
    out.spec = spec
    return out


def extreme_with_indices(self: Any, dim: Any) -> Any:
    """Extremes along a dimension, and where they are."""
    spec = self.spec
    if type(dim) is not int or not 0 <= dim < spec.rank:
        dim = axis("Title", dim, spec.rank)
    values, indices = new(spec.tensor), new(spec.tensor)
    values.inner, indices.inner = computed("method", spec.ops.operation, self.inner, dim, spec.int.dtype)
    values.spec, indices.spec = spec, spec.int
    return values, indices


def index_of_extreme(self: Any, dim: Any, keepdim: None = None) -> Any:
    """The indices of extremes along a dimension."""
    if keepdim is not None:
        raise along("method", dim)
    spec = self.spec
    if type(dim) is not int or not 0 <= dim < spec.rank:
        dim = axis("Title", dim, spec.rank)
    out = new(spec.tensor)
    try:
        out.inner = spec.ops.operation(self.inner, dim, spec.int.dtype)
    except Exception as error:
        fail("method", error, self.inner)
    out.spec = spec.int
    return out


def activation(x: Any) -> Any:
    """An activation function without arguments."""
    spec = float_spec("method", x)
    out = new(spec.tensor)
    out.inner = spec.activation.operation(x.inner)
    out.spec = spec
    return out


def activation_along(x: Any, dim: Any) -> Any:
    """An activation function along a dimension."""
    spec = float_spec("method", x)
    if type(dim) is not int or not 0 <= dim < spec.rank:
        dim = axis("Title", dim, spec.rank)
    out = new(spec.tensor)
    out.inner = inner = spec.activation.operation(x.inner, dim)
    out.spec = spec if spec.wide or inner.dtype is spec.dtype else spec.family[inner.dtype][spec.rank]
    return out
