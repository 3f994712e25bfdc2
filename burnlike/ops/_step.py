"""What the steps of all rules share: the native op, its fake and its plain-torch reference, from one signature."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from inspect import signature, unwrap
from typing import Any, ParamSpec

import torch
from torch import Tensor

from ..errors import ArgumentError
from ._arguments import DEVICES, check_memory, note_written, refuse_tracked
from ._divided import are_divided, parts_alike
from ._library import WITHOUT_NATIVE, fake, op, refuse_lazy_negation
from ._random import random_bits, round_stochastically, uniform
from ._step_lists import Step, StepOptions, check_lists, spread
from .blockwise import dequantize_blockwise, encode
from .convert import rounded_once

P = ParamSpec("P")
_HALF = (torch.bfloat16, torch.float16)
_CODES = (torch.int8, torch.uint8)


def step_op(define: Callable[P, Step]) -> Callable[P, None]:
    """Make the native op of a step from the function that says what one call of it is.

    The function's parameters are those of the op's schema in csrc/cpu/<op>.cpp, by name and in order: params, grads,
    moments, their scales, times if there are any, numbers; `options` stands for the fields of StepOptions. The op, its
    fake and, by `reference_of`, its reference are made of it.
    """
    name, native = define.__name__, op(define.__name__)
    parameters = signature(define).parameters

    @wraps(define)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        step = define(*args, **kwargs)
        if are_divided(*step.params, *step.grads):
            step = _of_parts(name, step)
        if torch.is_grad_enabled():
            refuse_tracked(name, step.written())
        device_type = step.params[0].device.type if step.params else "cpu"
        if not step.params or device_type in WITHOUT_NATIVE or device_type not in DEVICES:
            check_lists(name, step)
            _run_reference(name, step)
            return
        try:
            native(*native_arguments(step))
        except RuntimeError:
            check_lists(name, step)
            check_memory(name, step.named())
            raise
        note_written(step.written())

    @fake(name)
    def _(*arguments: Any) -> None:
        named = dict(zip((key for key in parameters if key != "options"), arguments, strict=False))
        options = StepOptions(*arguments[len(named) :])
        check_lists(name, define(**named, options=options))  # pyright: ignore[reportCallIssue]

    refuse_lazy_negation(name)
    return _without_result(run, define)


def reference_of(native: Callable[P, None]) -> Callable[P, None]:
    define: Callable[P, Step] = unwrap(native)
    name = define.__name__

    def reference(*args: P.args, **kwargs: P.kwargs) -> None:
        _run_reference(name, define(*args, **kwargs))

    reference.__name__ = reference.__qualname__ = f"{name}reference"
    reference.__module__ = define.__module__
    reference.__doc__ = f"The same as `{name}` in plain torch, on any device."
    return _without_result(reference, define)


def native_arguments(step: Step) -> tuple[Any, ...]:
    """What the op takes, in the order of its schema."""
    options = step.options
    return (
        *(step.params, step.grads),
        *[states.tensors for states in step.states],
        *[states.scales for states in step.states if states.codes is not None],
        *(() if step.times is None else (step.times,)),
        *step.scalars,
        *(options.grad_scale, options.factors, options.clip_value, options.skip, options.skipped),
        *(list(options.copies), options.zero_grads, options.seed),
    )


def _of_parts(op: str, step: Step) -> Step:
    """The step of this process's parts, of DTensors that are divided alike."""
    used = [it for it in step.states if not it.is_left_out]
    if step.options.copies or any(it.scales or len(it.tensors) != len(step.params) for it in used):
        raise ArgumentError(
            f"{op}: expected plain tensors beside copies, and states in 8 bits or joined ones, got DTensors"
        )
    lists = {"params": step.params, "grads": step.grads, **{it.key: it.tensors for it in used}}
    params, grads, *moments = parts_alike(op, **lists)
    own = {it.key: it._replace(tensors=parts) for it, parts in zip(used, moments, strict=True)}
    return step._replace(params=params, grads=grads, states=tuple(own.get(it.key, it) for it in step.states))


@torch.no_grad()
def _run_reference(op: str, step: Step) -> None:
    for values in _reference_values(op, step):
        step.formula(values)


def _without_result(function: Callable[P, None], define: Callable[P, Step]) -> Callable[P, None]:
    function.__signature__ = signature(define).replace(return_annotation=None)  # pyright: ignore[reportFunctionMemberAccess]
    return function


class ReferenceValues:
    """One parameter of a step in plain torch, in the dtype that is computed in.

    `p` is the parameter, `g` its gradient, scaled and clipped, `states` its moments, `time` the number of the step
    without the skipped ones, 1 where the rule has no use for it.
    """

    def __init__(self, step: Step, index: int, moments: Sequence[Tensor], scales: Sequence[Tensor | None]) -> None:
        self._options, self._index = step.options, index
        self._param, self._grad = step.params[index], step.grads[index]
        self._moments, self._scales = moments, scales
        self.dtype = torch.promote_types(self._param.dtype, torch.float32)
        self.p = self._param.to(self.dtype)
        self.g = self._gradient()
        self.states = [
            moment.to(self.dtype) if scale is None else dequantize_blockwise(moment, scale, self.dtype)
            for moment, scale in zip(moments, scales, strict=True)
        ]
        time = 1 if step.times is None else step.times[index]
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
            self._assign(copy, rounded_once(self._param, copy.dtype))
        if self._options.zero_grads:
            self._grad.zero_()

    def _rounded(self, values: Tensor, dtype: torch.dtype, stream: int) -> Tensor:
        bits = self._bits(stream, values.numel()) if dtype in _HALF else None
        if bits is None:
            return rounded_once(values, dtype)
        return round_stochastically(values.float().flatten(), dtype, bits).view(values.shape)

    def _bits(self, stream: int, count: int) -> Tensor | None:
        seed = self._options.seed
        return None if seed is None else random_bits(seed, self._index, stream, count, self._param.device)

    def _assign(self, target: Tensor, values: Tensor) -> None:
        skip = self._options.skip
        target.copy_(values if skip is None else torch.where(skip.squeeze() != 0, target, values))


def _reference_values(op: str, step: Step) -> Iterator[ReferenceValues]:
    present = [states for states in step.states if not states.is_left_out]
    each = [spread(op, states, step.params) for states in present]
    scales = [iter(states.scales) for states in present]
    for index in range(len(step.params)):
        moments = [tensors[index] for tensors in each]
        own = [
            next(remaining) if moment.dtype in _CODES else None
            for moment, remaining in zip(moments, scales, strict=True)
        ]
        yield ReferenceValues(step, index, moments, own)
