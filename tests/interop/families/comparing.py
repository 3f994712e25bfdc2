"""Whether a fused model gives what the stock one gives, and how far apart they are."""

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from burnlike.interop import FuseReport, fuse

from .tiny_transformers import tensors_of

NAMES = ("results", "gradients")
Results = tuple[list[Tensor], list[Tensor]]
NOT_IN_BFLOAT16 = ("fnet", "inkling2_text", "mra")
"""Families whose stock models raise in bfloat16."""


def _run(model: nn.Module, inputs: dict[str, Tensor], *, training: bool) -> Results:
    """All floating-point results (loss, logits, hidden states), and the gradients of all parameters."""
    dtype = next(model.parameters()).dtype
    given = {name: it.to(dtype) if it.is_floating_point() else it for name, it in inputs.items()}
    random.seed(3)
    torch.manual_seed(3)
    model.train(training).zero_grad(set_to_none=True)
    try:
        result = model(**given, output_hidden_states=True)
    except TypeError:
        result = model(**given)
    tensors = tensors_of(result)
    weights = torch.Generator().manual_seed(4)
    total = sum(
        (it.float() * torch.randn(it.shape, generator=weights)).sum() / it.numel() ** 0.5
        for it in tensors
        if it.requires_grad
    )
    if isinstance(total, Tensor):
        total.backward()
    gradients = [torch.zeros_like(it) if it.grad is None else it.grad.detach() for it in model.parameters()]
    return [it.detach() for it in tensors], gradients


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([it.double().flatten() for it in tensors])


def _distance(one: list[Tensor], other: list[Tensor]) -> float:
    return ((_flat(one) - _flat(other)).norm() / _flat(other).norm().clamp(min=1e-6)).item()


def _check_each(fused: Results, stock: Results, exact: Callable[[], Results], where: str) -> None:
    """That each tensor is near by its own size: a loss is one number beside thousands of logits.

    Where rounding alone makes more of a difference to the stock model (in GroupViT 0.2 of some gradients), the fused
    one is to be as near to `exact`, which is what the stock one computes in float64.
    """
    for kind, what in enumerate(NAMES):
        least = 1e-5 * _flat(stock[kind]).norm() / len(stock[kind]) ** 0.5  # of gradients that are 0 but for rounding
        for place, (one, other) in enumerate(zip(fused[kind], stock[kind], strict=True)):
            assert one.dtype == other.dtype, f"{what} {where} {place}"
            if (one - other).double().norm() > 1e-3 * other.double().norm() + least:
                real = exact()[kind][place]
                assert (one - real).norm() <= 1.5 * (other - real).norm(), f"{what} {where} {place}"


@dataclass(frozen=True)
class Differences:
    """The largest of a family's results and gradients, in training and in evaluation, relative to their norm.

    Attributes:
        float32: between the fused and the stock model.
        fused, stock: of each in bfloat16 from the stock model in float32; None where the stock one raises.
    """

    float32: float
    fused: float | None
    stock: float | None


def compare(model: nn.Module, inputs: dict[str, Tensor], *, bfloat16: bool = True) -> tuple[FuseReport, Differences]:
    """That the fused model gives what the stock one gives, in bfloat16 as nearly as this gives what float32 does."""
    # Before it runs: some models keep tensors of a run, which can't be copied.
    fused, untouched = copy.deepcopy(model), copy.deepcopy(model)
    state = torch.get_rng_state()
    report = fuse(fused)
    assert torch.equal(torch.get_rng_state(), state)
    has_images = any("channels_last" in it.ops for it in report.fused)
    twin = copy.deepcopy(fused)
    exact: dict[bool, Results] = {}
    apart: list[float] = []
    in_bfloat16: list[tuple[float, float]] = []

    @cache
    def in_float64() -> Results:
        return _run(copy.deepcopy(untouched).double(), inputs, training=False)

    for training in (True, False):
        exact[training] = _run(model, inputs, training=training)
        found = _run(fused, inputs, training=training)
        # In training float64 would draw other random numbers: nothing but the stock values will do.
        real = (lambda: exact[True]) if training else in_float64
        if has_images:
            # Normalizations over the few values of tiny images make much of a rounding.
            pair = [_run(copy.deepcopy(it).double(), inputs, training=training) for it in (twin, untouched)]
            _check_each(*pair, lambda pair=pair: pair[1], f"in float64, training={training}")
        else:
            _check_each(found, exact[training], real, f"in float32, training={training}")
        apart += [_distance(one, other) for one, other in zip(found, exact[training], strict=True)]
    model, fused = model.to(torch.bfloat16), fused.to(torch.bfloat16)
    for training in (True, False) if bfloat16 else ():
        results = (_run(it, inputs, training=training) for it in (fused, model))
        for what, one, other, near in zip(NAMES, *results, exact[training], strict=True):
            assert [it.dtype for it in one] == [it.dtype for it in other], f"{what} in bfloat16, training={training}"
            assert _distance(one, other) < 3 * _distance(other, near) + 0.02, f"{what} in bfloat16, training={training}"
            in_bfloat16.append((_distance(one, near), _distance(other, near)))
    fused_error, stock_error = (max(it) for it in zip(*in_bfloat16, strict=True)) if in_bfloat16 else (None, None)
    return report, Differences(max(apart), fused_error, stock_error)
