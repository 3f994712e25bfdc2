"""Moments of parameters: how they are first made, and many small ones in few tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...ops import scale_count
from ..core.gradient_transform import computing_dtype
from .config_base import StateDtype

# Values up to which a moment is packed, if it has any: handing a tensor to a kernel costs more than a small one's step.
# Above, a step's time is in its values, and packing would cost memory in vain.
SMALL = 16384

# Values from which a moment is kept in 8 bits, if that is asked: below, there is next to nothing to save.
QUANTIZED_FROM = 4096


@dataclass(frozen=True, slots=True)
class Moment:
    """One of the moments that a rule keeps of each parameter: its field in the state, and how it is kept.

    `scales` is the field of its scales when it is kept in 8 bits; None if it can't be.
    """

    field: str
    dtype: StateDtype = "auto"
    scales: str | None = None
    is_signed: bool = True

    def zeros(self, tensor: Tensor) -> dict[str, Tensor]:
        """The fields of a state before the first step of the parameter `tensor`."""
        if self.dtype == "blockwise8" and self.scales is not None and tensor.numel() >= QUANTIZED_FROM:
            codes = torch.int8 if self.is_signed else torch.uint8
            scales = torch.zeros(scale_count(tensor.numel()), dtype=torch.float32, device=tensor.device)
            return {self.field: _zeros(tensor, codes), self.scales: scales}
        named = {"float32": torch.float32, "bfloat16": torch.bfloat16}
        return {self.field: _zeros(tensor, named.get(self.dtype, computing_dtype(tensor.dtype)))}


def placed(value: Tensor, tensor: Tensor) -> Tensor:
    """A part of a state where its parameter is, in a precision that the kernels take beside that of `tensor`."""
    fits = value.dtype in (tensor.dtype, torch.float32, torch.bfloat16) or not value.is_floating_point()
    return value.to(tensor.device, value.dtype if fits else computing_dtype(tensor.dtype))


def pack(moments: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Put each run of small moments into one flat tensor, end to end; codes of 8 bits stay as they are.

    It gives for each moment a tensor of its shape and values, and the list that kernels take: flat tensors for the
    runs, the others as they are. Both share memory.
    """
    each: list[Tensor] = []
    handed: list[Tensor] = []
    for run in _runs(moments):
        if len(run) == 1:
            each += run
            handed += run
            continue
        flat = torch.cat([moment.flatten() for moment in run])
        parts = flat.split([moment.numel() for moment in run])
        each += [part.view(moment.shape) for part, moment in zip(parts, run, strict=True)]
        handed.append(flat)
    return each, handed


def _runs(moments: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Moments in a row that one tensor holds, each at a multiple of 16 bytes, which CUDA's kernels read at once."""
    run: list[Tensor] = []
    for moment in moments:
        if run and not (
            (moment.dtype, moment.device) == (run[-1].dtype, run[-1].device)
            and _is_packed(moment)
            and _is_packed(run[-1])
            and run[-1].nbytes % 16 == 0
        ):
            yield run
            run = []
        run.append(moment)
    if run:
        yield run


def _is_packed(moment: Tensor) -> bool:
    return 0 < moment.numel() <= SMALL and moment.is_floating_point()


def _zeros(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros_like(tensor, dtype=dtype, memory_format=torch.contiguous_format)
