"""Refuses arguments of torch's reductions that those of Tensor don't have, with the method to use instead.

The methods have them as parameters of type None, which costs a call nothing and lets type checkers refuse them too.
"""

from typing import Any

from ...errors import TensorTypeError
from .spec import title


def whole(name: str, dim: Any) -> TensorTypeError:
    """The error of a reduction of all elements that gets a dimension, several, or `keepdim` alone.

    Args:
        name: of the method.
        dim: what it got.
    """
    if dim is None:
        return TensorTypeError(title(name), f"{name}() reduces all elements to shape [1] and takes no keepdim")
    if isinstance(dim, int):
        call, drop = f"{name}_dim({dim})", f"squeeze_dim({dim})"
    elif name in ("any", "all"):
        call, drop = f"{name}_dim(dim) for one after the other", f"squeeze_dims({[*dim]}, rank)"
    else:
        call, drop = f"{name}_dims({[*dim]})", f"squeeze_dims({[*dim]}, rank)"
    where = f" (with the indices: {name}_dim_with_indices)" if name in ("max", "min") else ""
    return TensorTypeError(
        title(name), f"{name}() reduces all elements; use {call}{where}, which keeps the size 1, and {drop} to drop it"
    )


def along(name: str, dim: Any) -> TensorTypeError:
    """The error of a reduction along one dimension that gets `keepdim`.

    Args:
        name: of the method.
        dim: the dimension.
    """
    return TensorTypeError(
        title(name), f"{name}(dim) keeps the size 1 and takes no keepdim; squeeze_dim({dim}) drops the dimension"
    )
