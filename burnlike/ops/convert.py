"""Conversion of many float tensors to other float types, in one pass with the check for values that are too large.

Values are rounded to nearest, ties to even, and once: `tensor.to` takes float64 to float16 or bfloat16 by way of
float32, and so rounds some values beside the middle of two numbers to the farther one.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import ArgumentError
from ._arguments import (
    DEVICES,
    check_device,
    check_dtype,
    check_memory,
    check_shape,
    check_tensor,
    note_written,
    refuse_tracked,
)
from ._divided import are_divided, parts_alike
from ._library import WITHOUT_NATIVE, fake, op, refuse_lazy_negation

_convert = op("convert_")


def convert_(targets: Sequence[Tensor], sources: Sequence[Tensor], lost: Tensor) -> None:
    """Write the values of `sources` into `targets`, in their types.

    All tensors are on one device; nothing is written when one of them is refused. On CUDA nothing waits: targets that
    are views of one buffer are filled by one launch for all sources of a type.

    Args:
        targets: contiguous; float32, float16, bfloat16 or float64. None may share memory with a source.
        sources: one for each target, of its shape; of these types and of any strides.
        lost: int32 `[len(targets)]`. Set to 1 where a finite value of the source became infinite; else left as it is,
            so it can gather what several calls find.

    Raises:
        ArgumentError: lists of different lengths, or a target that is not contiguous.
        AutodiffError: a target requires grad, and gradients are on: call it under `torch.no_grad()`.
    """
    if are_divided(*targets, *sources):  # `lost` is then of this process's parts
        targets, sources = parts_alike("convert_", targets=targets, sources=sources)
    if torch.is_grad_enabled():
        refuse_tracked("convert_", targets)
    convert_new_(targets, sources, lost)
    note_written([*targets, lost])


def convert_new_(targets: Sequence[Tensor], sources: Sequence[Tensor], lost: Tensor) -> None:
    """`convert_` into targets that nobody has seen yet, which autograd need not be told of; no DTensors."""
    device_type = lost.device.type
    if device_type in WITHOUT_NATIVE or device_type not in DEVICES:
        check_lists(targets, sources, lost)
        convert_reference(targets, sources, lost)
        return
    try:
        _convert(targets, sources, lost)
    except RuntimeError:  # the kernel checks the same before it writes, and says less
        check_lists(targets, sources, lost)
        named = {f"targets[{index}]": tensor for index, tensor in enumerate(targets)}
        named |= {f"sources[{index}]": tensor for index, tensor in enumerate(sources)}
        check_memory("convert_", named | {"lost": lost})
        raise


def rounded_once(values: Tensor, dtype: torch.dtype) -> Tensor:
    """`values.to(dtype)`, of float64 rounded once to 16 bits.

    The float32 on the way is rounded towards zero, with its last bit set where anything is lost (Boldo & Melquiond
    2008, "Emulation of FMA and correctly rounded sums"): the kernels' `rounded_to_odd`.
    """
    if values.dtype != torch.float64 or dtype not in (torch.float16, torch.bfloat16) or values.is_meta:
        return values.to(dtype)
    nearest = values.float()
    back = nearest.double()
    # As integers floats are ordered by magnitude: one less is the next float towards zero.
    odd = (nearest.view(torch.int32) - (back.abs() > values.abs()).int()) | (back != values).int()
    return odd.view(torch.float32).to(dtype)


def copy_rounded_(target: Tensor, source: Tensor) -> None:
    """`target.copy_(source)`, rounded once."""
    target.copy_(rounded_once(source, target.dtype) if source.dtype == torch.float64 else source)


@torch.no_grad()
def convert_reference(targets: Sequence[Tensor], sources: Sequence[Tensor], lost: Tensor) -> None:
    """The same as `convert_` in plain torch, on any device."""
    for index, (target, source) in enumerate(zip(targets, sources, strict=True)):
        copy_rounded_(target, source)
        lost[index] |= (source.isfinite() & ~target.isfinite()).any()


def check_lists(targets: Sequence[Tensor], sources: Sequence[Tensor], lost: Tensor) -> None:
    """Raise the error that says what is wrong with the arguments of a conversion, if anything is."""
    name = "convert_"
    if len(sources) != len(targets):
        raise ArgumentError(f"{name}: expected {len(targets)} sources, one for each target, got {len(sources)}")
    check_dtype(name, "lost", lost, (torch.int32,))
    check_shape(name, "lost", lost, [len(targets)])
    check_device(name, "lost", lost, targets[0].device if targets else None)
    if not lost.is_contiguous():
        raise ArgumentError(f"{name}: expected lost to be contiguous; make it with torch.zeros")
    for index, (target, source) in enumerate(zip(targets, sources, strict=True)):
        label, source_label = f"targets[{index}]", f"sources[{index}]"
        check_device(name, label, target)
        check_tensor(name, label, target, device=targets[0].device)
        check_tensor(name, source_label, source, device=targets[0].device)
        check_shape(name, label, target, source.shape)
        if not target.is_contiguous():
            raise ArgumentError(f"{name}: expected {label} to be contiguous, got strides {list(target.stride())}")


refuse_lazy_negation("convert_")


@fake("convert_")
def _(targets: list[Tensor], sources: list[Tensor], lost: Tensor) -> None:
    check_lists(targets, sources, lost)
