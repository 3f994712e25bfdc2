"""What lazy parameters ask of torch that it has no public name for.

Where a version of torch changes one of them, the tests of lazy parameters fail.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

# Within it, subclasses are treated as plain tensors: their `__torch_function__` is not called.
as_plain_tensors: Any = torch._C.DisableTorchFunctionSubclass


def is_shared_with_cpp(tensor: Tensor) -> bool:
    """Whether C++ code (DistributedDataParallel, a graph of autograd) holds `tensor` beside its Python object."""
    with as_plain_tensors():
        return tensor._use_count() > 1  # pyright: ignore[reportAttributeAccessIssue]


def exchange(one: Tensor, other: Tensor) -> None:
    """Let the Python object `one` be what `other` is in C++, and the other way around; classes stay.

    `torch.utils.swap_tensors` refuses tensors that are weakly referred to, and exchanges the classes in a moment of its
    own, where other threads would meet a parameter that is neither.
    """
    with as_plain_tensors():
        torch._C._swap_tensor_impl(one, other)


@contextmanager
def outside_of_transforms() -> Iterator[None]:
    """Values made within are plain ones that can be trained, whatever the first use happens in.

    That may be vmap, inference mode, or the tracing of torch.compile, where new tensors are batched, can't be trained,
    or have no values.
    """
    with (
        temporarily_clear_interpreter_stack(),
        _disable_current_modes(),
        torch.inference_mode(False),
        torch.no_grad(),
    ):
        yield


def is_traced() -> bool:
    """Whether torch.compile is at work on what runs now."""
    return torch._guards.CompileContext.try_get() is not None  # pyright: ignore[reportAttributeAccessIssue]


def traced_modules() -> Iterator[nn.Module]:
    """The modules that the frame which torch.compile traces has in its variables."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    frame: Any = InstructionTranslator.current_tx().output.root_tx
    for value in frame.f_locals.values():
        value = getattr(value, "__self__", value)
        if isinstance(value, nn.Module):
            yield value


def trace_again(reason: str) -> BaseException:
    """What has torch.compile trace the frame from its beginning, when it is raised."""
    return torch._dynamo.exc.RestartAnalysis(restart_reason=reason)  # pyright: ignore[reportAttributeAccessIssue]
