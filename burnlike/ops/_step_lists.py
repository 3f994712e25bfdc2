"""What an optimizer's step takes: lists of tensors, options, and what may be wrong with them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ..errors import ArgumentError, ShapeError
from ._arguments import check_device, check_tensor, shares_memory_with_itself
from .blockwise import scale_count

if TYPE_CHECKING:
    from ._step import ReferenceValues

_COPIES = (torch.float32, torch.bfloat16, torch.float16)
_CODES = (torch.int8, torch.uint8)


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What `adamw_step_`, `sgd_step_` and `lion_step_` do in the same pass over the values.

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
    """For each parameter its moment: an element of the list, or a view of a flat one that holds several."""
    if states.is_left_out:
        return []
    found: list[Tensor] = []
    remaining = iter(states.tensors)
    flat: Tensor | None = None
    for index, param in enumerate(params):
        if flat is None:
            flat = next(remaining, None)
            if flat is None:
                raise ArgumentError(f"{op}: expected {states.key} for {len(params)} parameters, got {index}")
            if flat.shape == param.shape:
                found.append(flat)
                flat = None
                continue
        count = param.numel()
        if flat.dim() != 1 or flat.dtype in _CODES or not flat.is_contiguous() or flat.numel() < count:
            several = "" if flat.dtype in _CODES else ", or a flat tensor of several parameters' moments"
            raise ShapeError(
                f"{op}: expected {states.key} of params[{index}] of shape {list(param.shape)}{several}, got "
                f"{list(flat.shape)}"
            )
        found.append(flat[:count].view(param.shape))
        flat = flat[count:] if flat.numel() > count else None
    if flat is not None or next(remaining, None) is not None:
        raise ArgumentError(f"{op}: expected {states.key} for {len(params)} parameters, got more")
    return found
