"""Clipping in steps, against torch: of all kinds, of halves, shared by groups, after a loss scale."""

from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import ConfigError
from burnlike.module import ParamGroup, params
from burnlike.optim import (
    ClipByGlobalNorm,
    ClipByNorm,
    ClipByValue,
    GradientClipping,
    OptimizerAdaptor,
    OptimizerGroup,
    SgdConfig,
)

from .group_steps import BIAS, LAST, LR, close, gradients, group, model_of, stepped, taken


def clipped_by_torch(grads: dict[str, torch.Tensor], clipping: GradientClipping | None) -> dict[str, torch.Tensor]:
    """As `torch.nn.utils` clips the gradients of parameters, in float64."""
    leaves = {path: nn.Parameter(torch.zeros_like(grad, dtype=torch.float64)) for path, grad in grads.items()}
    for path, leaf in leaves.items():
        leaf.grad = grads[path].double().clone()
    match clipping:
        case ClipByValue(threshold=threshold):
            nn.utils.clip_grad_value_(leaves.values(), threshold)
        case ClipByNorm(threshold=threshold):
            for leaf in leaves.values():
                nn.utils.clip_grad_norm_(leaf, threshold)
        case ClipByGlobalNorm(threshold=threshold):
            nn.utils.clip_grad_norm_(leaves.values(), threshold)
        case _:
            pass
    return {path: leaf.grad for path, leaf in leaves.items() if leaf.grad is not None}


CLIPPINGS = [ClipByValue(threshold=0.3), ClipByNorm(threshold=0.7), ClipByGlobalNorm(threshold=0.9)]


@pytest.mark.parametrize("clipping", CLIPPINGS, ids=lambda it: type(it).__name__)
def test_clipping_is_torchs(clipping: GradientClipping) -> None:
    found = stepped(SgdConfig(grad_clipping=clipping))
    # torch adds 1e-6 to the norm, Burn the smallest normal number.
    for path, grad in clipped_by_torch(gradients(model_of()), clipping).items():
        torch.testing.assert_close(found[path], -LR * grad, rtol=3e-6, atol=1e-15)


@pytest.mark.parametrize("clipping", CLIPPINGS, ids=lambda it: type(it).__name__)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_clipping_of_half_gradients_is_computed_wide(clipping: GradientClipping, dtype: torch.dtype) -> None:
    model = model_of().to(dtype)
    for param in params(model):
        param.tensor.data.zero_()
    grads = gradients(model)
    SgdConfig(grad_clipping=clipping).init().step(1.0, model, taken(model, grads))
    for param in params(model):
        expected = -clipped_by_torch(grads, clipping)[param.path]
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(param.tensor.detach().double(), expected, rtol=eps, atol=eps * 1e-2)


def test_a_global_norm_is_of_the_base_and_of_groups_without_clipping_of_their_own() -> None:
    clipping = ClipByGlobalNorm(threshold=0.9)
    own = SgdConfig(grad_clipping=ClipByValue(threshold=0.2))
    found = stepped(SgdConfig(grad_clipping=clipping, groups=(group(BIAS, lr_factor=2.0), group(LAST, optimizer=own))))
    grads = gradients(model_of())
    shared = clipped_by_torch({path: grads[path] for path in ("0.weight", "0.bias")}, clipping)
    torch.testing.assert_close(found["0.weight"], -LR * shared["0.weight"], rtol=3e-6, atol=0)
    torch.testing.assert_close(found["0.bias"], -2 * LR * shared["0.bias"], rtol=3e-6, atol=0)
    for path in ("1.weight", "1.bias"):
        close(found[path], -LR * grads[path].clamp(-0.2, 0.2))


@pytest.mark.parametrize("clipping", [None, *CLIPPINGS], ids=lambda it: type(it).__name__)
def test_a_loss_scale_is_taken_out_before_clipping(clipping: GradientClipping | None) -> None:
    config = SgdConfig(grad_clipping=clipping, groups=(group(BIAS, lr_factor=2.0),))
    expected = stepped(config)
    for scale in (1024.0, torch.tensor(1024.0)):
        model = model_of()
        scaled = {path: grad * 1024.0 for path, grad in gradients(model).items()}
        before = {param.path: param.tensor.detach().clone() for param in params(model)}
        config.init().step(LR, model, taken(model, scaled), loss_scale=scale)
        for param in params(model):
            close(param.tensor.detach() - before[param.path], expected[param.path])


def norms_taken(rules: OptimizerAdaptor[Any]) -> list[list[str]]:
    """The parameters of each norm of 1.0 that the gradients of a step are clipped to, found from the step alone."""
    model = model_of()
    grads = {path: grad * 100 for path, grad in gradients(model).items()}
    before = {param.path: param.tensor.detach().clone() for param in params(model)}
    rules.step(1.0, model, taken(model, grads))
    after = {param.path: param.tensor.detach() for param in params(model)}
    found: dict[float, list[str]] = {}
    for path, grad in grads.items():
        factor = ((before[path] - after[path]).norm() / grad.norm()).item()
        found.setdefault(round(1 / factor, 6), []).append(path)
    for norm, paths in found.items():
        assert norm == pytest.approx(torch.cat([grads[path].flatten() for path in paths]).norm().item(), rel=1e-6)
    return sorted(found.values())


HALVES = [["0.bias", "0.weight"], ["1.bias", "1.weight"]]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", [None, "all"])
def test_whether_norms_are_one_is_told_by_the_name_and_not_by_the_object(shared: bool, name: str | None) -> None:
    first = ClipByGlobalNorm(threshold=1.0, group=name)
    second = first if shared else ClipByGlobalNorm(threshold=1.0, group=name)
    rule = SgdConfig().build()
    made = OptimizerAdaptor(rule, first, [OptimizerGroup(LAST, SgdConfig().build(), second)])
    added = OptimizerAdaptor(rule, first).with_group(LAST, SgdConfig().build(), second)
    without_base = OptimizerAdaptor(
        None, None, [OptimizerGroup(ParamGroup.all(), rule, first), OptimizerGroup(LAST, SgdConfig().build(), second)]
    )
    config = SgdConfig(grad_clipping=first, groups=(group(LAST, optimizer=SgdConfig(grad_clipping=second)),))
    expected = HALVES if name is None else [sorted([*HALVES[0], *HALVES[1]])]
    for rules in (made, added, without_base, config.init(), SgdConfig.from_yaml(config.to_yaml()).init()):
        assert [sorted(paths) for paths in norms_taken(rules)] == expected


def test_parts_of_one_norm_may_have_thresholds_of_their_own() -> None:
    base = ClipByGlobalNorm(threshold=0.5, group="all")
    own = SgdConfig(grad_clipping=ClipByGlobalNorm(threshold=0.1, group="all"))
    found = stepped(SgdConfig(grad_clipping=base, groups=(group(LAST, optimizer=own),)))
    grads = gradients(model_of())
    norm = torch.cat([grad.flatten() for grad in grads.values()]).norm()
    for path, threshold in {"0.weight": 0.5, "0.bias": 0.5, "1.weight": 0.1, "1.bias": 0.1}.items():
        close(found[path], -LR * grads[path] * threshold / norm)


def test_a_norm_needs_a_name_that_can_be_read() -> None:
    with pytest.raises(ConfigError, match="group"):
        ClipByGlobalNorm(threshold=1.0, group="")
