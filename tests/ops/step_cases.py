"""The table's cases of optimizer steps: every rule over shapes, strides, dtypes and forms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from burnlike.ops import (
    StepOptions,
    adamw_step_,
    adamw_step_reference,
    lion_step_,
    lion_step_reference,
    sgd_step_,
    sgd_step_reference,
)

from .op_case import FLOATS, LISTS, OpCase, dtype_name

GRAD_SCALE = 0.5


@dataclass(frozen=True)
class StepRule:
    """One form of a rule.

    Attributes:
        op: its name.
        native, reference: its functions.
        squares: for each list of moments whether its values are squares.
        scalars: the numbers it takes, in the order of the op's schema.
        has_times: whether it takes times.
        absent: how many lists of moments this form goes without.
        scale_lists: how many lists of scales the op takes.
    """

    op: str
    native: Callable[..., None]
    reference: Callable[..., None]
    squares: tuple[bool, ...]
    scalars: dict[str, Any]
    has_times: bool = True
    absent: int = 0
    scale_lists: int = 1

    def call(self, step: Callable[..., None], lists: list[list[Tensor]], **keywords: Any) -> None:
        """Call `native` or `reference` with lists of parameters, gradients and moments."""
        if self.has_times:
            keywords["times"] = times(len(lists[0]))
        if len(lists) == 5:
            keywords["max_moments_2"] = lists[4]
        step(*lists[:4], **self.scalars, **keywords)

    def raw_arguments(self, lists: list[list[Tensor]]) -> tuple[Any, ...]:
        """What the op itself takes."""
        own = [times(len(lists[0]))] if self.has_times else []
        options = (GRAD_SCALE, None, float("inf"), None, None, [], False, None)
        missing: list[list[Tensor]] = [[] for _ in range(self.absent + self.scale_lists)]
        return (*lists, *missing, *own, *self.scalars.values(), *options)


def times(count: int) -> list[int]:
    """A time for each parameter, the first of them 1."""
    return [1 + 3 * index for index in range(count)]


def adamw(cautious: bool = False, amsgrad: bool = False, coupled: bool = False) -> StepRule:
    scalars = {"lr": 0.02, "beta_1": 0.85, "beta_2": 0.95, "epsilon": 1e-6, "weight_decay": 0.3}
    return StepRule(
        *("adamw_step", adamw_step_, adamw_step_reference, (False, True, True)[: 3 if amsgrad else 2]),
        scalars={**scalars, "coupled": coupled, "cautious": cautious},
        absent=0 if amsgrad else 1,
        scale_lists=2,
    )


def sgd(momentum: bool = True, nesterov: bool = False, weight_decay: float = 0.3) -> StepRule:
    return StepRule(
        *("sgd_step", sgd_step_, sgd_step_reference, (False,) if momentum else ()),
        scalars={
            "lr": 0.02,
            "momentum": 0.9,
            "dampening": 0.0 if nesterov else 0.2,
            "nesterov": nesterov,
            "weight_decay": weight_decay,
        },
        absent=0 if momentum else 1,
    )


def lion(weight_decay: float = 0.3) -> StepRule:
    scalars = {"lr": 0.02, "beta_1": 0.85, "beta_2": 0.95, "weight_decay": weight_decay}
    return StepRule("lion_step", lion_step_, lion_step_reference, (False,), scalars, has_times=False)


def with_clear_sign(gradient: Tensor, moment: Tensor, rule: StepRule) -> Tensor:
    """The gradient, but the moment's where the sum whose sign Lion takes is within rounding of 0."""
    beta = rule.scalars["beta_1"]
    old, new = beta * moment.double(), (1 - beta) * GRAD_SCALE * gradient.double()
    return torch.where((old + new).abs() < 1e-5 * old.abs(), moment.to(gradient.dtype), gradient)


def split(tensors: Sequence[Tensor], kinds: int) -> list[list[Tensor]]:
    """The tensors as lists of equal length."""
    count = len(tensors) // kinds
    return [list(tensors[start : start + count]) for start in range(0, len(tensors), count)]


def step_case(
    name: str,
    rule: StepRule,
    dtype: torch.dtype,
    moment_dtype: torch.dtype,
    make: Callable[[torch.dtype], list[Tensor]] = LISTS["odd"],
) -> OpCase:
    kinds = 2 + len(rule.squares)

    def inputs() -> list[Tensor]:
        torch.manual_seed(2)
        states = [make(moment_dtype) for _ in rule.squares]
        signed = [
            [tensor.square() if square else tensor for tensor in tensors]
            for tensors, square in zip(states, rule.squares, strict=True)
        ]
        parameters, gradients = make(dtype), make(dtype)
        if rule.op == "lion_step":
            gradients = [with_clear_sign(*pair, rule) for pair in zip(gradients, signed[0], strict=True)]
        return [tensor for tensors in (parameters, gradients, *signed) for tensor in tensors]

    def stepped(step: Callable[..., None]) -> Callable[..., list[Tensor]]:
        def call(*tensors: Tensor) -> list[Tensor]:
            lists = split([tensor.clone() for tensor in tensors], kinds)
            rule.call(step, lists, options=StepOptions(grad_scale=GRAD_SCALE))
            return [tensor for index, tensors in enumerate(lists) if index != 1 for tensor in tensors]

        return call

    return OpCase(
        name=f"{rule.op}-{name}-{dtype_name(dtype)}-{dtype_name(moment_dtype)}",
        raw=getattr(torch.ops.burnlike, f"{rule.op}_").default,
        native=stepped(rule.native),
        reference=stepped(rule.reference),
        inputs=inputs,
        raw_arguments=lambda tensors: rule.raw_arguments(split(tensors, kinds)),
        dtype=dtype,
    )


_FORMS = {
    "cautious": adamw(cautious=True),
    "amsgrad": adamw(amsgrad=True),
    "both": adamw(cautious=True, amsgrad=True),
    "coupled": adamw(coupled=True),
    "coupled-amsgrad": adamw(coupled=True, amsgrad=True),
    "plain": sgd(momentum=False),
    "no-decay": sgd(weight_decay=0.0),
    "nesterov": sgd(nesterov=True),
    "nothing": sgd(momentum=False, weight_decay=0.0),
    "lion-no-decay": lion(weight_decay=0.0),
}

STEP_CASES = [
    *(step_case(name, adamw(), dtype, dtype, make) for name, make in LISTS.items() for dtype in FLOATS),
    *(
        step_case(name, rule, dtype, dtype, make)
        for name, make in LISTS.items()
        for rule in (sgd(), lion())
        for dtype in FLOATS
    ),
    *(step_case(name, rule, dtype, dtype) for name, rule in _FORMS.items() for dtype in FLOATS),
    *(
        step_case("mixed", rule, dtype, moment_dtype)
        for rule in (adamw(), adamw(amsgrad=True), sgd(), lion())
        for dtype in FLOATS
        for moment_dtype in (torch.float32, torch.bfloat16)
        if dtype != moment_dtype
    ),
]
