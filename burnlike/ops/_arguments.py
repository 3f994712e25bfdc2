"""Arguments of ops: checks whose errors say what was expected, what came and what to do; the dtypes of autocast; notes
to autograd of what was written; the halves of gated linear units."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from .._dtypes import NATIVE, torch_dtypes
from ..errors import ArgumentError, AutodiffError, DeviceError, DTypeError, ShapeError

FLOATS = torch_dtypes(NATIVE)
# On `meta` there are shapes and no data, and the fakes do the work.
DEVICES = ("cpu", "cuda", "meta")

Approximate = Literal["none", "tanh"]
"""The forms of GELU, by torch's names."""


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check_dtype(op: str, name: str, tensor: Tensor, allowed: Sequence[torch.dtype] = FLOATS) -> None:
    if tensor.dtype not in allowed:
        expected = " or ".join(dict.fromkeys(map(_name, allowed)))
        remedy = f"convert it with {name}.to(torch.{_name(allowed[0])})"
        raise DTypeError(f"{op}: expected {name} of dtype {expected}, got {_name(tensor.dtype)}; {remedy}")


def check_device(op: str, name: str, tensor: Tensor, device: torch.device | None = None) -> None:
    """Raise DeviceError unless the tensor is on the device, or on a kind of device that native ops run on."""
    if device is None and tensor.device.type not in DEVICES:
        remedy = f"move it with .to('cpu'), or use {op.removesuffix('_')}_reference, which runs anywhere"
        raise DeviceError(f"{op}: expected {name} on a cpu or cuda device, got {tensor.device}; {remedy}")
    if device is not None and tensor.device != device:
        remedy = f"move it with {name}.to('{device}')"
        raise DeviceError(f"{op}: expected {name} on {device}, got {tensor.device}; {remedy}")


def check_same_device(op: str, first: Tensor, others: Iterable[Tensor | None]) -> None:
    """Raise DeviceError for tensors on two devices: with one of them on `meta` an op's fake would run, on real ones."""
    for other in others:
        if other is not None and other.device != first.device:
            raise DeviceError(f"{op}: expected tensors on {first.device}, got one on {other.device}")


def check_shape(op: str, name: str, tensor: Tensor, shape: Sequence[int]) -> None:
    if tuple(tensor.shape) != tuple(shape):
        raise ShapeError(f"{op}: expected {name} of shape {list(shape)}, got {list(tensor.shape)}")


def check_tensor(
    op: str,
    name: str,
    tensor: Tensor,
    dtypes: Sequence[torch.dtype] = FLOATS,
    device: torch.device | None = None,
    shape: Sequence[int] | None = None,
) -> None:
    """Raise the error of `check_device`, `check_dtype` or `check_shape`, in this order, that fits."""
    check_device(op, name, tensor, device)
    check_dtype(op, name, tensor, dtypes)
    if shape is not None:
        check_shape(op, name, tensor, shape)


def check_memory(op: str, tensors: Mapping[str, Tensor]) -> None:
    """Raise ArgumentError for a tensor whose memory is not there, or not aligned to its values.

    It asks for addresses, so it is for tensors that a kernel refused, not for fake ones.
    """
    check_storage(op, tensors)
    for name, tensor in tensors.items():
        if tensor.numel() == 0 or tensor.device.type == "meta":
            continue
        if tensor.data_ptr() % tensor.element_size():
            raise ArgumentError(
                f"{op}: expected {name} at an address that is a multiple of {tensor.element_size()} bytes; make an"
                f" aligned copy with {name}.clone()"
            )


def check_storage(op: str, tensors: Mapping[str, Tensor]) -> None:
    """Raise ArgumentError for a tensor whose memory is not there; as `check_memory`, but for products of torch, which
    take any address."""
    for name, tensor in tensors.items():
        if tensor.numel() == 0 or tensor.device.type == "meta":
            continue
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        needed = (tensor.storage_offset() + last + 1) * tensor.element_size()
        held = tensor.untyped_storage().nbytes()
        if held < needed:
            raise ArgumentError(
                f"{op}: expected {name} with its values, {needed} bytes, got a storage of {held}: it was freed, as"
                " fully sharded training does between uses; gather the tensor first"
            )


def shares_memory_with_itself(tensor: Tensor) -> bool:
    """True if two values of `tensor` are, or may be, one place in memory: expanded, or with overlapping strides."""
    extent = 1
    for stride, size in sorted((st, si) for st, si in zip(tensor.stride(), tensor.shape, strict=True) if si > 1):
        if stride < extent:
            return True
        extent += (size - 1) * stride
    return False


def refuse_tracked(op: str, tensors: Sequence[Tensor]) -> None:
    """Raise AutodiffError for a tensor that requires grad, as autograd would not see that it changes."""
    for tensor in tensors:
        if tensor.requires_grad:
            raise AutodiffError(
                f"{op}: a tensor to be written requires grad, and autograd would lose track of it; "
                "call it under torch.no_grad()"
            )


def note_written(tensors: Sequence[Tensor]) -> None:
    """Let autograd see that tensors have changed, those that it saved among them."""
    if not torch.compiler.is_compiling():
        torch.autograd.graph.increment_version(tensors)  # inference tensors have no version


def check_approximate(op: str, approximate: str, forms: Sequence[str] = ("none", "tanh")) -> None:
    if approximate not in forms:
        expected = " or ".join(map(repr, forms))
        raise ArgumentError(f"{op}: expected approximate {expected}, got {approximate!r}")


# Asked here: torch.compile of torch 2.11 can't trace the question.
_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "xla")
_WITH_AUTOCAST = frozenset(filter(torch.amp.autocast_mode.is_autocast_available, _DEVICES))


def autocast_dtype(x: Tensor) -> torch.dtype | None:
    """The dtype to which torch's matrix products convert `x` within autocast; None where they don't.

    None outside of autocast, on a device without it (`meta`), for float64 and for what is no float.
    """
    if x.is_cpu and not torch.is_autocast_enabled("cpu"):  # the usual case, in a third of the time
        return None
    device = x.device.type
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return None
    if device not in _WITH_AUTOCAST or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


def for_products(x: Tensor) -> Tensor:
    """Convert `x` as torch's matrix products and attention do within autocast: once, not once for each of them."""
    dtype = autocast_dtype(x)
    return x if dtype is None else x.to(dtype)


def check_glu(op: str, gate: Tensor, up: Tensor | None) -> None:
    check_tensor(op, "gate", gate)
    if up is not None:
        check_tensor(op, "up", up, (gate.dtype,), gate.device, gate.shape)
    elif gate.dim() == 0 or gate.shape[-1] % 2:
        raise ShapeError(
            f"{op}: expected gate [..., 2 d], the gate's values before those that it gates, got {list(gate.shape)}; "
            "give the two as two tensors if they are not in one"
        )


def halves(gate: Tensor, up: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gate and what it gates, without a copy, in the type that is computed in."""
    if up is None:
        gate, up = gate.chunk(2, -1)
    dtype = torch.promote_types(gate.dtype, torch.float32)
    return gate.to(dtype), up.to(dtype)


def new_output(gate: Tensor, up: Tensor | None) -> Tensor:
    return gate.new_empty(gate.shape if up is not None else (*gate.shape[:-1], gate.shape[-1] // 2))
