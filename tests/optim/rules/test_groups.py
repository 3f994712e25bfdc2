"""Parameter groups: their rules, rates and decay; what is refused, and when; copies, zeroed gradients, new layers."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import ConfigError, DeviceError, DTypeError, ShapeError
from burnlike.module import ParamGroup, params
from burnlike.optim import (
    AdamWConfig,
    ClipByGlobalNorm,
    ClipByValue,
    GradientsParams,
    LambConfig,
    LionConfig,
    ModuleLearningRate,
    ModuleOptimizerConfig,
    OptimizerAdaptor,
    OptimizerGroupsConfig,
    SgdConfig,
)

from ..step.group_steps import ALL, BIAS, LAST, LR, close, gradients, group, model_of, stepped, taken


def test_each_group_has_its_rule_and_the_last_that_matches_counts() -> None:
    found = stepped(
        SgdConfig(groups=(group(LAST, optimizer=LionConfig()), group(BIAS, optimizer=SgdConfig(maximize=False))))
    )
    grads = gradients(model_of())
    for path in ("0.weight", "0.bias", "1.bias"):
        close(found[path], -LR * grads[path])
    close(found["1.weight"], -LR * grads["1.weight"].sign())


def test_a_group_has_a_factor_of_the_rate_and_its_own_decay() -> None:
    found = stepped(SgdConfig(weight_decay=0.5, groups=(group(BIAS, weight_decay=0.0, lr_factor=3.0),)))
    model, grads = model_of(), gradients(model_of())
    for param in params(model):
        start = param.tensor.detach()
        expected = -3 * LR * grads[param.path] if "bias" in param.path else -LR * (grads[param.path] + 0.5 * start)
        close(found[param.path], expected)


def test_groups_alone_take_every_parameter() -> None:
    found = stepped(
        OptimizerGroupsConfig(groups=(group(ALL, optimizer=SgdConfig()), group(BIAS, optimizer=LionConfig())))
    )
    grads = gradients(model_of())
    close(found["0.weight"], -LR * grads["0.weight"])
    close(found["0.bias"], -LR * grads["0.bias"].sign())


def test_rates_by_group_and_factors_of_groups_are_multiplied() -> None:
    rate = ModuleLearningRate(0.1, (LAST,), (0.2,))
    found = stepped(SgdConfig(groups=(group(BIAS, lr_factor=2.0),)), rate)
    grads = gradients(model_of())
    for path, expected in {"0.weight": 0.1, "0.bias": 0.2, "1.weight": 0.2, "1.bias": 0.4}.items():
        close(found[path], -expected * grads[path])


def test_maximize_goes_up_for_all_groups() -> None:
    options: dict[str, Any] = {
        "grad_clipping": ClipByGlobalNorm(threshold=0.9),
        "groups": (group(BIAS, optimizer=LionConfig()),),
    }
    down, up = stepped(SgdConfig(**options)), stepped(SgdConfig(**options, maximize=True))
    for path, change in down.items():
        close(up[path], -change)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("found_inf", [False, True])
def test_a_step_that_is_not_finite_changes_nothing_in_any_group(bad: float, found_inf: bool) -> None:
    model = model_of()
    config = AdamWConfig(skip_non_finite=not found_inf, groups=(group(BIAS, optimizer=LionConfig()),))
    optimizer = config.init()
    optimizer.step(LR, model, taken(model, gradients(model)))
    weights, record = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.to_record())
    grads = gradients(model, 5)
    if not found_inf:
        grads["1.bias"][0] = bad
    given = taken(model, grads)
    optimizer.step(LR, model, given, zero_grads=True, found_inf=torch.ones(1) if found_inf else None)
    assert_unchanged(model, optimizer, weights, record)
    assert optimizer.skipped_steps == 1
    assert all(not grad.any() for grad in given.values)


def assert_unchanged(model: nn.Module, optimizer: OptimizerAdaptor[Any], weights: dict[str, Any], record: Any) -> None:
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    now = optimizer.to_record()
    assert now.values == record.values
    assert now.tensors.keys() == record.tensors.keys()
    assert all(torch.equal(now.tensors[name], record.tensors[name]) for name in record.tensors)


@pytest.mark.parametrize(
    ("grad", "error", "message"),
    [
        (torch.ones(3, dtype=torch.float64), ShapeError, r"'1\.bias' has shape \[3\], expected \[2\]"),
        (torch.ones(2), DTypeError, r"'1\.bias' has dtype torch\.float32, expected torch\.float64"),
        (torch.ones(2, dtype=torch.float64, device="meta"), DeviceError, r"'1\.bias' is on 'meta', expected 'cpu'"),
    ],
)
@pytest.mark.parametrize("groups", [(), (group(BIAS, optimizer=LionConfig()),)], ids=["one run", "several runs"])
@pytest.mark.parametrize("config", [SgdConfig(), AdamWConfig()], ids=lambda it: type(it).__name__)
def test_a_gradient_that_does_not_fit_is_refused_before_anything_changes(
    config: ModuleOptimizerConfig, groups: Any, grad: torch.Tensor, error: type[Exception], message: str
) -> None:
    model = model_of()
    optimizer = config.replace(groups=groups).init()
    optimizer.step(LR, model, taken(model, gradients(model)))
    weights, record = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.to_record())
    wrong = GradientsParams.of(
        (param, grad if param.path == "1.bias" else values) for param, values in taken(model, gradients(model))
    )
    with pytest.raises(error, match=f"the gradient of {message}; nothing was changed"):
        optimizer.step(LR, model, wrong)
    assert_unchanged(model, optimizer, weights, record)


def test_a_group_that_matches_nothing_is_refused_at_the_first_step_and_by_check() -> None:
    model = model_of()
    optimizer = SgdConfig(
        groups=(group(BIAS), group(ParamGroup.from_predicate("bais"))),
    ).init()
    weights, record = copy.deepcopy(model.state_dict()), optimizer.to_record()
    for act in (lambda: optimizer.check(model), lambda: optimizer.step(LR, model, taken(model, gradients(model)))):
        with pytest.raises(ConfigError, match=r"groups\[1\] of the optimizer matches no parameter .*0\.weight"):
            act()
    assert_unchanged(model, optimizer, weights, record)


def test_a_parameter_in_no_group_is_refused_by_its_path() -> None:
    model = model_of()
    optimizer = OptimizerGroupsConfig(groups=(group(BIAS, optimizer=SgdConfig()),)).init()
    weights, record = copy.deepcopy(model.state_dict()), optimizer.to_record()
    with pytest.raises(ConfigError, match=r"the parameter '0\.weight' is in no group of the optimizer"):
        optimizer.step(LR, model, taken(model, gradients(model)))
    assert_unchanged(model, optimizer, weights, record)


def test_groups_that_make_no_sense_are_refused_when_the_optimizer_is_made() -> None:
    with pytest.raises(ConfigError, match="groups: expected at least one"):
        OptimizerGroupsConfig()
    with pytest.raises(ConfigError, match=r"groups\.0\.optimizer: expected a rule"):
        OptimizerGroupsConfig(groups=(group(BIAS),))
    with pytest.raises(ConfigError, match=r"groups\.0\.optimizer\.maximize: is that of the whole optimizer"):
        AdamWConfig(groups=(group(BIAS, optimizer=SgdConfig(maximize=True)),))
    with pytest.raises(ConfigError, match=r"groups\.0\.optimizer: expected false: LambConfig can't"):
        AdamWConfig(groups=(group(BIAS, optimizer=LambConfig()),), stochastic_rounding=True)
    with pytest.raises(ConfigError, match="stochastic_rounding: expected false: LambConfig can't"):
        LambConfig(stochastic_rounding=True)
    with pytest.raises(ConfigError, match="lr_factor"):
        group(BIAS, lr_factor=-1.0)
    with pytest.raises(ConfigError, match="weight_decay"):
        group(BIAS, weight_decay=-1.0)


def test_clipping_and_groups_are_set_before_there_are_states() -> None:
    model = model_of()
    optimizer = AdamWConfig().init().with_grad_clipping(ClipByValue(threshold=0.1))
    optimizer = optimizer.with_group(BIAS, SgdConfig().build())
    optimizer.step(LR, model, taken(model, gradients(model)))
    record = optimizer.to_record()
    loaded = AdamWConfig().init().with_group(BIAS, SgdConfig().build()).load_record(record)
    for late in (
        lambda: optimizer.with_grad_clipping(None),
        lambda: optimizer.with_group(LAST, SgdConfig().build()),
        lambda: loaded.with_grad_clipping(None),
    ):
        with pytest.raises(ConfigError, match="set it before the first step and before load_record"):
            late()


def test_copies_in_half_precision_are_the_rounded_weights() -> None:
    model = model_of().float()
    copies = copy.deepcopy(model).bfloat16()
    config = AdamWConfig(groups=(group(BIAS, optimizer=SgdConfig()),))
    optimizer = config.init().with_copies(model, copies)
    for seed in range(3):
        optimizer.step(LR, model, taken(model, gradients(model, seed)))
        for weight, half in zip(model.parameters(), copies.parameters(), strict=True):
            assert torch.equal(half, weight.bfloat16())
    with pytest.raises(ConfigError, match=r"expected a copy of '0\.weight' of shape \[4, 3\], got none"):
        config.init().with_copies(model, nn.Linear(3, 4))


def test_gradients_are_zeroed_on_request_only() -> None:
    model = model_of()
    optimizer = SgdConfig(groups=(group(BIAS, optimizer=LionConfig()),)).init()
    grads = taken(model, gradients(model))
    before = [grad.clone() for grad in grads.values]
    optimizer.step(LR, model, grads)
    assert all(torch.equal(a, b) for a, b in zip(grads.values, before, strict=True))
    optimizer.step(LR, model, grads, zero_grads=True)
    assert not any(grad.any() for grad in grads.values)


def test_an_inserted_layer_begins_anew_and_the_others_go_on() -> None:
    model, twin = model_of(), model_of()
    for param, other in zip(params(model), params(twin), strict=True):
        other.adopt(param.id)
    optimizers = [AdamWConfig().init(), AdamWConfig().init()]
    for tree, optimizer in zip((model, twin), optimizers, strict=True):
        optimizer.step(LR, tree, taken(tree, gradients(tree)))
    larger = nn.Sequential(model[0], nn.Linear(4, 4).double(), model[1])
    grads = gradients(twin, 6)
    moved = {"0.weight": "0.weight", "0.bias": "0.bias", "2.weight": "1.weight", "2.bias": "1.bias"}
    optimizers[0].step(
        LR,
        larger,
        GradientsParams.of(
            (param, grads[moved[param.path]] if param.path in moved else torch.ones_like(param.tensor))
            for param in params(larger)
        ),
    )
    optimizers[1].step(LR, twin, taken(twin, grads))
    for ours, theirs in moved.items():
        assert torch.equal(larger.get_parameter(ours), twin.get_parameter(theirs))
    assert len(optimizers[0].prune_orphans(twin)) == 2, "the new layer's states"


def test_a_group_from_yaml_is_the_group_of_a_program() -> None:
    text = """
groups:
  - params: {match: [{type: Regexes, regexes: ['bias$']}]}
    weight_decay: 0.0
    lr_factor: 2.0
  - params: {match: [{type: Predicates, predicates: ['1.']}], excludes: [{type: Predicates, predicates: [bias]}]}
    optimizer: {type: Lion, grad_clipping: {type: ClipByValue, threshold: 0.5}}
grad_clipping: {type: ClipByGlobalNorm, threshold: 1.0}
weight_decay: 0.1
"""
    lion = LionConfig(grad_clipping=ClipByValue(threshold=0.5))
    expected = AdamWConfig(
        weight_decay=0.1,
        grad_clipping=ClipByGlobalNorm(threshold=1.0),
        groups=(
            group(ParamGroup.from_regex("bias$"), weight_decay=0.0, lr_factor=2.0),
            group(LAST.exclude(BIAS), optimizer=lion),
        ),
    )
    assert AdamWConfig.from_yaml(text) == expected
    assert AdamWConfig.from_yaml(expected.to_yaml()) == expected
    for path, change in stepped(expected).items():
        assert change.abs().sum() > 0, path
