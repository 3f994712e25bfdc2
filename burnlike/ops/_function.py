"""How a function with a derivative calls its native op."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .._torch_compat.transforms import is_wrapped
from ..errors import AutodiffError
from ._checks import check_memory
from ._compiled import is_decomposed
from ._library import WITHOUT_NATIVE


def call(
    name: str,
    native: Any,
    reference: Callable[..., Any],
    check: Callable[..., None],
    *arguments: Any,
) -> Any:
    """What the native op gives, or the reference where there is no kernel or a compiled graph is faster with it.

    Args:
        name: of the op.
        native: the op itself, whose kernels check that nothing is read or written out of bounds.
        reference: the same in plain torch.
        check: raises errors in the user's words for the same arguments; called where the native op refused, or is not
            called.
        arguments: of the schema; the first is a tensor.
    """
    x = arguments[0]
    if x.device.type in WITHOUT_NATIVE or is_decomposed(name, x):
        check(*arguments)
        return reference(*arguments)
    try:
        return native(*arguments)
    except RuntimeError:
        check(*arguments)
        names = [argument.name for argument in native._schema.arguments]
        tensors = {key: it for key, it in zip(names, arguments, strict=True) if isinstance(it, Tensor)}
        if any(
            is_wrapped(it) for it in tensors.values()
        ):  # torch.func can't differentiate an op of a library (torch 2.13)
            return reference(*arguments)
        check_memory(name, tensors)
        raise


def no_second_derivative(name: str) -> Callable[..., None]:
    """The derivative of a backward op, which there is not."""

    def refuse(ctx: Any, *grads: Tensor) -> None:
        raise AutodiffError(f"{name} has no second derivative; use {name}_reference where one is needed")

    return refuse
