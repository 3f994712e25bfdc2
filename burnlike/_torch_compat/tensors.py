"""Facts that torch has about a tensor, and the state of autograd in this thread."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import _engine_run_backward

TAKES_DATA = "_has_compatible_shallow_copy_type"
"""The function that `nn.Module.to` asks about each parameter, as `__torch_function__` of a lazy one hears its name.

Where torch asks by another name, `module.to(...)` gives a lazy parameter its values first.
"""


def takes_data_of(target: Tensor, value: Tensor) -> bool:
    """True if `target.data = value` works: for equal layouts and devices of one kind.

    Without it, one would assign and look at the error, which torch raises for other reasons too.
    """
    ask: Any = getattr(torch, TAKES_DATA)
    return ask(target, value)


def shares_memory(one: Tensor, other: Tensor) -> bool:
    """True if the two have memory in common, of any layout and class.

    Without it, results of mappers would always be copied, at the price of memory for each parameter.
    """
    return torch._C._is_alias_of(one, other)  # pyright: ignore[reportAttributeAccessIssue]


def quantized_tensor(values: Tensor, scale: Any, zero_point: Any, axis: int | None = None) -> Tensor:
    """A quantized tensor of stored integers; the public functions quantize numbers, which rounds 32-bit integers.

    Args:
        values: integers.
        scale: a number, or for each channel one.
        zero_point: likewise.
        axis: the dimension of the channels; None for one scale.
    """
    if axis is not None:
        return torch.ops.aten._make_per_channel_quantized_tensor(values, scale, zero_point, axis)
    return torch.ops.aten._make_per_tensor_quantized_tensor(values, scale, zero_point)


def in_backward() -> bool:
    """True if this thread is running a hook of a backward pass.

    Without it, a backward pass inside of a hook would wait without end for the one it is in.
    """
    return torch._C._current_graph_task_id() != -1


def run_backward(root: Tensor, gradient: Tensor) -> None:
    """As `torch.autograd.backward(root, gradient)`, for a gradient of root's shape.

    Without it, torch compares the shapes and asks about subclasses in Python, a quarter of a small backward pass.
    """
    if type(root) is not Tensor or torch._C._are_functorch_transforms_active():
        torch.autograd.backward(root, gradient)
    else:
        _engine_run_backward((root,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True)


def is_view(tensor: Tensor) -> bool:
    """True if autograd knows the tensor as a view of another, as DDP's gradients are of its buckets.

    Without it, every gradient that DDP leaves in `.grad` would be copied.
    """
    return tensor._is_view()


def times_written(tensor: Tensor) -> int:
    """The number of writes in place to the tensor and its views, as autograd counts them.

    Without it, one would have to keep a copy and compare values, which misses writes of equal ones.
    """
    return tensor._version
