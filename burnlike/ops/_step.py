"""An optimizer's step as an op: its lists and options, the native op, its fake and its reference from one signature."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature, unwrap
from typing import Any, NamedTuple, ParamSpec

import torch
from torch import Tensor

from ..errors import ArgumentError, ShapeError
from ._arguments import (
    DEVICES,
    check_device,
    check_memory,
    check_tensor,
    note_written,
    refuse_tracked,
    shares_memory_with_itself,
)
from ._divided import are_divided, parts_alike
from ._library import WITHOUT_NATIVE, fake, op, refuse_lazy_negation
from ._random import random_bits, round_stochastically, uniform
from .blockwise import dequantize_blockwise, encode, scale_count
from .convert import rounded_once

P = ParamSpec("P")
_HALF = (torch.bfloat16, torch.float16)
_COPIES = (torch.float32, torch.bfloat16, torch.float16)
_CODES = (torch.int8, torch.uint8)


@dataclass(frozen=True, slots=True)
class StepOptions:
    """The work that `adamw_step_`, `sgd_step_` and `lion_step_` do in the same pass over the values.

    Nothing here waits for a device: what is decided there (factors, skipping) is handed over as a tensor.

    Attributes:
        grad_scale: gradients are multiplied by it.
        factors: float64 `[1]` or one for each parameter `[n]`, on the parameters' device: gradients are multiplied by
            it, too (clipping by norm, unscaling). A product of 1 leaves a gradient's bits as they are.
        clip_value: then gradients are cut to -clip_value..clip_value; NaN stays NaN.
        skip: float32 `[1]` or `[]` on the device: where it is not zero, nothing is changed but gradients to be zeroed.
        skipped: float64 `[1]` or `[]` on the device: the steps skipped so far, which are subtracted from every time. A
            step only reads it; the caller adds `skip` afterwards.
        copies: none, or one for each parameter, of its shape: gets the new weight as float32, float16 or bfloat16.
        zero_grads: whether gradients are set to zero.
        seed: turns on stochastic rounding of the weights and moments that are written in 16 or 8 bits (copies are
            rounded to nearest). The draw depends on the seed, the place of the tensor in the list and the place of the
            value, on nothing else: give each step another seed.

    Raises:
        ArgumentError: a negative clip_value or NaN, or a seed of more than 64 bits.
    """

    grad_scale: float = 1.0
    factors: Tensor | None = None
    clip_value: float = float("inf")
    skip: Tensor | None = None
    skipped: Tensor | None = None
    copies: Sequence[Tensor] = ()
    zero_grads: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.clip_value >= 0:
            raise ArgumentError(f"StepOptions: expected clip_value >= 0, got {self.clip_value}")
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            raise ArgumentError(f"StepOptions: expected a seed that fits in 64 bits with its sign, got {self.seed}")


class States(NamedTuple):
    """One list of moments: `tensors` has one for each parameter, or flat ones that hold those of several in a row.

    `codes` is the dtype of 8-bit codes, None if it takes none, and `scales` are those of moments in 8 bits, in order.
    Where it `is_optional`, an empty list means that there is no such moment. The keys are the arguments' names.
    """

    key: str
    tensors: Sequence[Tensor]
    codes: torch.dtype | None = None
    scales: Sequence[Tensor] = ()
    scales_key: str = "scales"
    is_optional: bool = False

    @property
    def is_left_out(self) -> bool:
        return self.is_optional and not self.tensors


class Step(NamedTuple):
    """One call of an optimizer's step; lists and numbers are in the order of the op's schema.

    `times` has for each parameter the number of the step, None if the rule has no use for it; `formula` is the step of
    one parameter in plain torch.
    """

    params: Sequence[Tensor]
    grads: Sequence[Tensor]
    states: tuple[States, ...]
    times: Sequence[int] | None
    scalars: tuple[float, ...]
    formula: "Callable[[ReferenceValues], None]"
    options: StepOptions

    def written(self) -> list[Tensor]:
        tensors = [*self.params, *self.options.copies]
        if self.options.zero_grads:
            tensors += self.grads
        for states in self.states:
            tensors += states.tensors
            tensors += states.scales
        return tensors

    def named(self) -> dict[str, Tensor]:
        """Every tensor by the name that errors give it."""
        lists = {"params": self.params, "grads": self.grads, "copies": self.options.copies}
        for states in self.states:
            lists |= {states.key: states.tensors, states.scales_key: states.scales}
        options = {"factors": self.options.factors, "skip": self.options.skip, "skipped": self.options.skipped}
        each = {f"{key}[{index}]": tensor for key, tensors in lists.items() for index, tensor in enumerate(tensors)}
        return each | {key: tensor for key, tensor in options.items() if tensor is not None}


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
        # As in `_function.call`: the kernels check the same before they write, and say less.
        try:
            native(*native_arguments(step))
        except RuntimeError:
            check_lists(name, step)
            check_memory(name, step.named())
            raise
        # Kernels write past autograd, which is to refuse a backward pass through values that were there before.
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
    """The arguments of the op, in the order of its schema."""
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
    used = [state for state in step.states if not state.is_left_out]
    if step.options.copies or any(it.scales or len(it.tensors) != len(step.params) for it in used):
        raise ArgumentError(
            f"{op}: expected plain tensors beside copies, and states in 8 bits or joined ones, got DTensors"
        )
    lists = {"params": step.params, "grads": step.grads, **{it.key: it.tensors for it in used}}
    params, grads, *moments = parts_alike(op, **lists)
    parts_of = {it.key: it._replace(tensors=parts) for it, parts in zip(used, moments, strict=True)}
    return step._replace(params=params, grads=grads, states=tuple(parts_of.get(it.key, it) for it in step.states))


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
        # On the CPU whatever the default device is: on `meta` there would be no number.
        return torch.tensor(value, dtype=torch.float64, device="cpu").to(self.dtype).item()

    def write(self, p: Tensor, *states: Tensor) -> None:
        """Write the new parameter and moments, each in its dtype, unless the step is skipped."""
        # Each tensor draws by a stream of its own, the parameter by 0, as in the kernels.
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
        # Chosen by a tensor, without a branch: whether a step is skipped stays on the device.
        skip = self._options.skip
        target.copy_(values if skip is None else torch.where(skip.squeeze() != 0, target, values))


def _reference_values(op: str, step: Step) -> Iterator[ReferenceValues]:
    present = [states for states in step.states if not states.is_left_out]
    each = [spread(op, states, step.params) for states in present]
    scales = [iter(states.scales) for states in present]
    for index in range(len(step.params)):
        moments = [tensors[index] for tensors in each]
        scales_of_param = [
            next(remaining) if moment.dtype in _CODES else None
            for moment, remaining in zip(moments, scales, strict=True)
        ]
        yield ReferenceValues(step, index, moments, scales_of_param)


def check_lists(op: str, step: Step) -> None:
    """Raise the error that says what is wrong with the lists of a step, if anything is."""
    params, grads, options = step.params, step.grads, step.options
    counted = {"grads": grads} | ({} if step.times is None else {"times": step.times})
    if options.copies:
        counted["copies"] = options.copies
    for key, values in counted.items():
        if len(values) != len(params):
            raise ArgumentError(f"{op}: expected {len(params)} {key}, one for each parameter, got {len(values)}")
    for index, (param, grad) in enumerate(zip(params, grads, strict=True)):
        if step.times is not None and step.times[index] < 1:
            raise ArgumentError(f"{op}: expected times[{index}] >= 1, the number of the step, got {step.times[index]}")
        check_device(op, f"params[{index}]", param)
        check_tensor(op, f"params[{index}]", param, device=params[0].device)
        _check_own_memory(op, f"params[{index}]", param)
        _check_like(op, f"grads[{index}]", grad, param, (param.dtype,), is_written=options.zero_grads)
    for states in step.states:
        _check_states(op, states, params)
    for index, copy in enumerate(options.copies):
        _check_like(op, f"copies[{index}]", copy, params[index], _COPIES)
    if params:
        _check_on_device(op, options, params)


def _check_states(op: str, states: States, params: Sequence[Tensor]) -> None:
    pairs = [] if states.is_left_out else list(zip(params, spread(op, states, params), strict=True))
    coded = [param for param, moment in pairs if moment.dtype in _CODES]
    for index, (param, moment) in enumerate(pairs):
        dtypes = (param.dtype, torch.float32, torch.bfloat16, *([states.codes] if states.codes else []))
        _check_like(op, f"{states.key} of params[{index}]", moment, param, dtypes)
    if len(states.scales) != len(coded):
        raise ArgumentError(
            f"{op}: expected {len(coded)} {states.scales_key}, one for each of {states.key} in 8 bits, got "
            f"{len(states.scales)}"
        )
    for index, (param, scales) in enumerate(zip(coded, states.scales, strict=True)):
        label = f"{states.scales_key}[{index}]"
        check_tensor(op, label, scales, (torch.float32,), param.device, [scale_count(param.numel())])
        _check_contiguous(op, label, scales)


def _check_on_device(op: str, options: StepOptions, params: Sequence[Tensor]) -> None:
    single = ([1], [])
    expected = {
        "factors": (options.factors, torch.float64, ([1], [], [len(params)])),
        "skip": (options.skip, torch.float32, single),
        "skipped": (options.skipped, torch.float64, single),
    }
    for key, (tensor, dtype, shapes) in expected.items():
        if tensor is None:
            continue
        check_tensor(op, key, tensor, (dtype,), params[0].device)
        if list(tensor.shape) not in shapes:
            choices = " or ".join(str(shape) for shape in shapes)
            raise ShapeError(f"{op}: expected {key} of shape {choices}, got {list(tensor.shape)}")
        _check_contiguous(op, key, tensor)


def _check_like(
    op: str, label: str, tensor: Tensor, param: Tensor, dtypes: Sequence[torch.dtype], is_written: bool = True
) -> None:
    check_tensor(op, label, tensor, dtypes, param.device, param.shape)
    if is_written:
        _check_own_memory(op, label, tensor)


def _check_contiguous(op: str, label: str, tensor: Tensor) -> None:
    if not tensor.is_contiguous():
        raise ArgumentError(f"{op}: expected {label} to be contiguous; make it so with .contiguous()")


def _check_own_memory(op: str, label: str, tensor: Tensor) -> None:
    if tensor.numel() and shares_memory_with_itself(tensor):
        raise ArgumentError(
            f"{op}: expected {label} with memory of its own, got an expanded tensor, or one with overlapping strides;"
            " make a copy with .clone()"
        )


def spread(op: str, states: States, params: Sequence[Tensor]) -> list[Tensor]:
    """The moment of each parameter: an element of the list, or a view of a flat one that holds several."""
    if states.is_left_out:
        return []
    moments: list[Tensor] = []
    remaining = iter(states.tensors)
    flat: Tensor | None = None
    for index, param in enumerate(params):
        if flat is None:
            flat = next(remaining, None)
            if flat is None:
                raise ArgumentError(f"{op}: expected {states.key} for {len(params)} parameters, got {index}")
            if flat.shape == param.shape:
                moments.append(flat)
                flat = None
                continue
        count = param.numel()
        if flat.dim() != 1 or flat.dtype in _CODES or not flat.is_contiguous() or flat.numel() < count:
            several = "" if flat.dtype in _CODES else ", or a flat tensor of several parameters' moments"
            raise ShapeError(
                f"{op}: expected {states.key} of params[{index}] of shape {list(param.shape)}{several}, got "
                f"{list(flat.shape)}"
            )
        moments.append(flat[:count].view(param.shape))
        flat = flat[count:] if flat.numel() > count else None
    if flat is not None or next(remaining, None) is not None:
        raise ArgumentError(f"{op}: expected {states.key} for {len(params)} parameters, got more")
    return moments
