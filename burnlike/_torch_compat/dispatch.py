"""Names of `__torch_function__` and `__torch_dispatch__`: modes, operators, what passes through them."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .oldest import OLDEST as OLDEST  # whose file refuses a torch that is too old

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]
# torch's guides to extending it name the two. Without the first, `load` could not build a module without drawing random
# numbers. Without the second, a tensor that is made of others (torchao's quantized ones) could not be told from one
# that has memory of its own.

F = TypeVar("F", bound=Callable[..., Any])


class TorchDispatchMode(_python_dispatch.TorchDispatchMode):
    """torch's, without the import of its compiler at the first operator, which takes longer than to load a model.

    That keeps the compiler out of `__torch_dispatch__`, which it can only come into once it is imported.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # see below

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__torch_dispatch__" in cls.__dict__:
            cls.__torch_dispatch__ = _never_compiled(cls.__dict__["__torch_dispatch__"])


def _never_compiled(function: F) -> F:
    disabled = torch._disable_dynamo(function)  # pyright: ignore[reportPrivateImportUsage]

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        return (disabled if "torch._dynamo" in sys.modules else function)(*args, **options)

    return called  # pyright: ignore[reportReturnType]


WRITES_TO_ARGUMENTS = frozenset({"_cummax_helper", "_cummin_helper", "_fused_moving_avg_obs_fq_helper"})
"""Functions that write into arguments, which their names don't say: typed tensors are refused there.

Where torch has one of them no more, its name here does nothing.
"""

PACKS_SEQUENCES = "_pack_padded_sequence"
"""What packs sequences: the first result is of the typed tensor, the other one counts rows on the host.

By another name, `torch.nn.utils.rnn` could not pack typed tensors.
"""


def inner_tensors(tensor: Any) -> list[torch.Tensor]:
    """The tensors that one of a traceable subclass is made of.

    Without it, each process builds a model with quantized weights whole.
    """
    return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]


below_autograd: Any = torch._C._AutoDispatchBelowAutograd
"""A `with` block in which the dispatcher passes by derivatives and the versions of tensors that are written.

Without it, each call of a native op runs torch's Python for its derivative, which takes longer than small kernels.
"""

any_requires_grad: Any = torch._C._any_requires_grad
"""Whether one of the arguments, of any type, is a tensor that requires a gradient.

In Python the question would take longer than what it saves.
"""


def schema_of(function: Any) -> Any:
    """An operator's schema, of its arguments and results; None for what is no operator.

    Without it, a mode can't know what an operation writes to.
    """
    return getattr(function, "_schema", None)


attention_math: Any = torch.ops.aten._scaled_dot_product_attention_math
"""Attention made of matrix products and a softmax, which returns also the weights.

`torch.nn.attention.sdpa_kernel` would choose it for all threads.
"""


TORCHS_WEIGHT_NORM: Any = torch._weight_norm  # pyright: ignore[reportPrivateImportUsage]
"""Weight normalization of `torch.nn.utils`, by which it is told where it is called.

Without it, a layer with that parametrization can't be trained over a backend that is not torch's.
"""

ctc_losses: Any = torch._ctc_loss  # pyright: ignore[reportPrivateImportUsage]
"""The losses of CTC and what their gradient needs; with `zero_infinity` gradients of infinite losses are 0.

By `functional.ctc_loss` an infinite loss is 0 as well, or makes the gradients of all weights NaN.
"""

grouped_products: Any = torch.ops.aten._grouped_mm
"""Products of groups of rows with a matrix each, as of experts. Without the name, nothing is forecast."""

nearest_exact: Any = torch.ops.aten._upsample_nearest_exact1d
"""Resampling of a line to the nearest place, with its derivative's other forms by its name."""

COUNTS_AND_SHARES = ("_has_compatible_shallow_copy_type", "_version", "_backward", "_assert_async")
"""Names of operators that calculate nothing, such as questions about a tensor."""


def current_mode() -> TorchDispatchMode | None:
    """The innermost dispatch mode that is active in this thread, the autograd threads among them.

    Without it, a backward pass within another one over the same backend would compute everything twice.
    """
    innermost: Any = _python_dispatch._get_current_dispatch_mode()  # pyright: ignore[reportPrivateUsage]
    return innermost


def decomposition_of(operator: Any) -> Callable[..., Any] | None:
    """A function that computes an operator of torch by others: torch's own decomposition; None where there is none.

    Without it, layers over a backend that is not torch's would be limited to operators that its tables have.
    """
    from torch._decomp import decomposition_table

    decomposition = decomposition_table.get(operator)
    if decomposition is None and operator._can_decompose():
        return operator.decompose
    return decomposition


def assume_constant(function: F) -> F:
    """Let torch.compile call `function` while it traces, and take the result as a constant.

    This is `torch.compiler.assume_constant_result` without its import of the whole compiler, which takes a second.
    """
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


def never_compile_alone(function: Callable[..., Any], *, with_callees: bool = False) -> None:
    """Have torch.compile run `function` as it is where it is called by code that is not compiled.

    So do the functions that it calls, if `with_callees`. Called by code that is compiled, it is compiled with that.
    Without it, what gives a module its forward could be compiled by itself, and the compiler can't return a method that
    no attribute of the module has.
    """
    native: Any = torch._C
    frames = native._dynamo.eval_frame
    action = frames._FrameAction
    of_callees = action.SKIP if with_callees else action.DEFAULT
    frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(action.SKIP, of_callees))
