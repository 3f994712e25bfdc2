"""Arguments that torch's reductions take and those of Tensor do not: refused, with the method that does it."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import TensorTypeError
from .spec import title

_KEEPDIM = ("keepdim", "keepdims")


def whole(name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> TensorTypeError:
    """What a reduction of all elements raises when it gets arguments.

    Args:
        name: of the method.
        arguments: what it got, by place.
        options: likewise, by name.
    """
    others = {key: value for key, value in options.items() if key not in ("dim", "axis", *_KEEPDIM)}
    dim = options.get("dim", options.get("axis", arguments[0] if arguments else None))
    if others or dim is None:
        return _unknown(name, others or {"dim": dim})
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


def along(name: str, dim: Any, options: Mapping[str, Any]) -> TensorTypeError:
    """What a reduction along one dimension raises when it gets none, or more arguments.

    Args:
        name: of the method.
        dim: the dimension, None where there is none.
        options: other arguments, by name.
    """
    others = {key: value for key, value in options.items() if key not in _KEEPDIM}
    if others:
        return _unknown(name, others)
    if dim is None:
        return TensorTypeError(
            title(name), f"expected a dimension; {name} of all elements is x.flatten(0, -1).{name}(0)"
        )
    return TensorTypeError(
        title(name), f"{name}(dim) keeps the size 1 and takes no keepdim; squeeze_dim({dim}) drops the dimension"
    )


def _unknown(name: str, options: Mapping[str, Any]) -> TensorTypeError:
    listed = ", ".join(f"{key}={value}" for key, value in options.items())
    return TensorTypeError(title(name), f"{name} takes no {listed}; docs/tensor_api.md says what it takes")
