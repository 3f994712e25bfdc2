"""What the steps of all rules share: the way to the native op, and the frame of the plain-torch references."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ._checks import DEVICES, check_memory
from ._library import WITHOUT_NATIVE
from ._random import random_bits, round_stochastically, uniform
from ._step_lists import StepLists, check_lists, spread
from ._written import note_written, refuse_tracked
from .blockwise import dequantize_blockwise, encode
from .step_options import StepOptions

_HALF = (torch.bfloat16, torch.float16)
_CODES = (torch.int8, torch.uint8)


def option_arguments(options: StepOptions) -> tuple[Any, ...]:
    """The options in the order of the ops' schemas."""
    return (
        *(options.grad_scale, options.factors, options.clip_value, options.skip, options.skipped),
        *(list(options.copies), options.zero_grads, options.seed),
    )


def options_of(
    grad_scale: float,
    factors: Tensor | None,
    clip_value: float,
    skip: Tensor | None,
    skipped: Tensor | None,
    copies: list[Tensor],
    zero_grads: bool,
    seed: int | None,
) -> StepOptions:
    """The options from an op's arguments."""
    return StepOptions(grad_scale, factors, clip_value, skip, skipped, copies, zero_grads, seed)


def run_step(lists: StepLists, native: Callable[..., None], arguments: Sequence[Any], reference: Callable) -> None:
    """Take a step by the native op, or by the reference where there is none.

    Args:
        lists: the tensors of the step.
        native: the op.
        arguments: what it takes, without the options.
        reference: takes `lists`.
    """
    if torch.is_grad_enabled():
        refuse_tracked(lists.op, lists.written())
    device_type = lists.params[0].device.type if lists.params else "cpu"
    if not lists.params or device_type in WITHOUT_NATIVE or device_type not in DEVICES:
        check_lists(lists)
        reference(lists)
        return
    try:
        native(*arguments, *option_arguments(lists.options))
    except RuntimeError:
        check_lists(lists)
        check_memory(lists.op, lists.named())
        raise
    note_written(lists.written())


class ReferenceValues:
    """One parameter of a step in plain torch, in the dtype that is computed in.

    Attributes:
        p, g: parameter and gradient; the gradient is scaled and clipped.
        states: its moments, in the order of the lists that are there.
        time: the number of the step, without the skipped ones; 1 where the rule has no use for it.
    """

    def __init__(
        self, lists: StepLists, index: int, moments: Sequence[Tensor], scales: Sequence[Tensor | None]
    ) -> None:
        self._options, self._index = lists.options, index
        self._param, self._grad = lists.params[index], lists.grads[index]
        self._moments, self._scales = moments, scales
        self.dtype = torch.promote_types(self._param.dtype, torch.float32)
        self.p = self._param.to(self.dtype)
        self.g = self._gradient()
        self.states = [
            moment.to(self.dtype) if scale is None else dequantize_blockwise(moment, scale, self.dtype)
            for moment, scale in zip(moments, scales, strict=True)
        ]
        time = 1 if lists.times is None else lists.times[index]
        self.time: float | Tensor = time if self._options.skipped is None else time - self._options.skipped.squeeze()

    def _gradient(self) -> Tensor:
        options, grad = self._options, self._grad.to(self.dtype)
        scale: float | Tensor = self.scalar(options.grad_scale)
        if options.factors is not None:
            factor = options.factors.reshape(-1)[self._index if options.factors.numel() > 1 else 0]
            scale = (options.grad_scale * factor).to(self.dtype)
        clip_value = self.scalar(options.clip_value)
        return (grad * scale).clamp(-clip_value, clip_value)

    def scalar(self, value: float) -> float:
        """A number in the dtype that is computed in: infinite where it is too large for it, as in the kernels."""
        return torch.tensor(value, dtype=torch.float64, device="cpu").to(self.dtype).item()

    def write(self, p: Tensor, *states: Tensor) -> None:
        """Write the new parameter and moments, each in its dtype, unless the step is skipped."""
        for stream, (moment, scales, values) in enumerate(zip(self._moments, self._scales, states, strict=True), 1):
            if scales is None:
                self._assign(moment, self._rounded(values, moment.dtype, stream))
                continue
            flat, bits = values.float().flatten(), self._bits(stream, values.numel())
            codes, new_scales = encode(flat, moment.dtype, None if bits is None else uniform(bits))
            self._assign(moment, codes.view(moment.shape))
            self._assign(scales, new_scales)
        self._assign(self._param, self._rounded(p, self._param.dtype, 0))
        if self._options.copies:
            copy = self._options.copies[self._index]
            self._assign(copy, self._param.to(copy.dtype))
        if self._options.zero_grads:
            self._grad.zero_()

    def _rounded(self, values: Tensor, dtype: torch.dtype, stream: int) -> Tensor:
        bits = self._bits(stream, values.numel()) if dtype in _HALF else None
        if bits is None:
            return values.to(dtype)
        return round_stochastically(values.float().flatten(), dtype, bits).view(values.shape)

    def _bits(self, stream: int, count: int) -> Tensor | None:
        seed = self._options.seed
        return None if seed is None else random_bits(seed, self._index, stream, count, self._param.device)

    def _assign(self, target: Tensor, values: Tensor) -> None:
        skip = self._options.skip
        target.copy_(values if skip is None else torch.where(skip.squeeze() != 0, target, values))


def reference_values(lists: StepLists) -> Iterator[ReferenceValues]:
    """The parameters of a step, one after the other."""
    present = [states for states in lists.states if not states.is_left_out]
    each = [spread(lists.op, states, lists.params) for states in present]
    scales = [iter(states.scales) for states in present]
    for index in range(len(lists.params)):
        moments = [tensors[index] for tensors in each]
        own = [
            next(remaining) if moment.dtype in _CODES else None
            for moment, remaining in zip(moments, scales, strict=True)
        ]
        yield ReferenceValues(lists, index, moments, own)
