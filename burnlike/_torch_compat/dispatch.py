"""What passes through `__torch_function__` and `__torch_dispatch__`: modes, operators, their names."""

from collections.abc import Callable
from typing import Any, TypeVar

from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]
# torch's guides to extending it name the two that are imported. Without the first, `load` could not build a module
# without drawing random numbers. Without the second, a tensor that is made of others (torchao's quantized ones) could
# not be told from one that has memory of its own.

F = TypeVar("F", bound=Callable[..., Any])

WRITES_TO_ARGUMENTS = frozenset({"_cummax_helper", "_cummin_helper", "_fused_moving_avg_obs_fq_helper"})
"""Functions that write into arguments, which their names don't say: typed tensors are refused there.

Where torch has one of them no more, its name here does nothing.
"""

PACKS_SEQUENCES = "_pack_padded_sequence"
"""What packs sequences: the first result is of the typed tensor, the other one counts rows on the host.

By another name, `torch.nn.utils.rnn` could not pack typed tensors.
"""


def schema_of(function: Any) -> Any:
    """What an operator of torch says of its arguments and results; None for what is no operator.

    Without it, a mode can't know what an operation writes to.
    """
    return getattr(function, "_schema", None)


def assume_constant(function: F) -> F:
    """Let torch.compile call `function` while it traces, and take the result as a constant.

    This is `torch.compiler.assume_constant_result` without its import of the whole compiler, which takes a second.
    """
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function
