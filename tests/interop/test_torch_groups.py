"""The groups of a TorchOptimizer and their options: shown, taken, changed, added to, and written into by schedules."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from burnlike.errors import ArgumentError, BurnlikeError, ConfigError
from burnlike.interop import TorchOptimizer
from burnlike.module import ParamGroup
from burnlike.optim import (
    AdaGradConfig,
    AdamConfig,
    AdamWConfig,
    ClipByGlobalNorm,
    LionConfig,
    ModuleOptimizerConfig,
    MomentumConfig,
    MuonConfig,
    OptimizerAdaptor,
    OptimizerGroupConfig,
    OptimizerGroupsConfig,
    RmsPropConfig,
    SgdConfig,
    SimpleOptimizer,
)

from .models import CONFIG, GROUPED, assert_equal_weights, loss_of, model_of, optimizer_of, theirs_of, train, weights_of
from .test_state_dicts import saved_and_loaded


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    """Those of GROUPED, as torch has them."""
    weights = [it for name, it in model.named_parameters() if "weight" in name]
    biases = [it for name, it in model.named_parameters() if "bias" in name]
    return [{"params": weights}, {"params": biases, "weight_decay": 0.0, "lr": 0.005}]


def test_each_group_of_the_config_is_a_group() -> None:
    model = model_of()
    optimizer = optimizer_of(model, GROUPED)
    base, biases = optimizer.param_groups
    assert base["param_names"] == ["0.weight", "2.weight", "4.weight"]
    assert biases["param_names"] == ["0.bias", "2.bias", "4.bias"]
    assert (base["lr"], biases["lr"]) == (0.01, 0.005)
    assert (base["weight_decay"], biases["weight_decay"]) == (0.1, 0.0)
    assert base["params"][0] is model[0].weight
    other = model_of()
    theirs = torch.optim.AdamW(groups_of(other), lr=0.01, eps=1e-5, weight_decay=0.1)
    train(model, optimizer, 5)
    train(other, theirs, 5)
    assert_equal_weights(model, other, 1e-12)


def test_groups_as_torch_has_them() -> None:
    model, other = model_of(), model_of()
    optimizer = optimizer_of(model, params=groups_of(model))
    theirs = torch.optim.AdamW(groups_of(other), lr=0.01, eps=1e-5, weight_decay=0.1)
    train(model, optimizer, 5)
    train(other, theirs, 5)
    assert_equal_weights(model, other, 1e-12)


def test_only_the_parameters_given_are_trained() -> None:
    model = model_of()
    before = weights_of(model)
    train(model, optimizer_of(model, params=model[4].named_parameters()), 1)
    changed = [not torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True)]
    assert changed == [False] * 4 + [True] * 2
    with pytest.raises(ArgumentError, match="params= has none"):
        optimizer_of(model, params=iter(()))


def test_what_is_written_into_groups_takes_effect() -> None:
    model, other = model_of(), model_of()
    optimizer, theirs = optimizer_of(model), theirs_of(other)
    for step in range(4):
        for each in (optimizer, theirs):
            each.param_groups[0]["lr"] = 0.01 / (step + 1)
            each.param_groups[0]["weight_decay"] = 0.1 * step
        train(model, optimizer, 1, step)
        train(other, theirs, 1, step)
    assert_equal_weights(model, other, 1e-12)
    optimizer.param_groups[0]["weight_decay"] = -1.0
    with pytest.raises(ConfigError, match="weight_decay"):
        train(model, optimizer, 1)


def test_a_group_is_added_later() -> None:
    model = model_of()
    optimizer = optimizer_of(model, GROUPED, params=model[0].parameters())
    train(model, optimizer, 2)
    optimizer.add_param_group({"params": [model[4].bias]})
    added = optimizer.param_groups[-1]
    assert (added["param_names"], added["lr"], added["weight_decay"]) == (["4.bias"], 0.005, 0.0)
    before = weights_of(model)
    train(model, optimizer, 1)
    changed = [not torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True)]
    assert changed == [True, True, False, False, False, True]
    times = [optimizer.state[it]["momentum.time"] for it in (model[0].bias, model[4].bias)]
    assert times == [3, 1]


def test_groups_that_can_not_be_added() -> None:
    model = model_of()
    optimizer = optimizer_of(model, GROUPED, params=model[0].parameters())
    for group, error, text in (
        ({"params": [nn.Parameter(torch.ones(1))]}, ConfigError, r"param_groups\[2\]\['params'\]\[0\] is no parameter"),
        ({"params": [model[2].weight, model[2].bias]}, ConfigError, "are in several groups of the config"),
        ({"params": [model[0].weight]}, ValueError, "more than one parameter group"),
        ({"params": [model[2].weight], "lr": -1.0}, ArgumentError, "learning rate of at least 0, got -1"),
        ({"params": [model[2].weight], "weight_decay": -1.0}, ConfigError, "weight_decay"),
        ({"params": {model[2].weight}}, TypeError, "ordered collections"),
        ([model[2].weight], TypeError, "must be a dict"),
    ):
        with pytest.raises(error, match=text):
            optimizer.add_param_group(group)  # pyright: ignore[reportArgumentType]
    assert len(optimizer.param_groups) == 2
    train(model, optimizer, 1)


def test_a_group_may_be_empty() -> None:
    model, other = model_of(), model_of()
    optimizer = optimizer_of(model, params=[{"params": []}, {"params": model.parameters()}])
    train(model, optimizer, 2)
    optimizer.load_state_dict(optimizer.state_dict())
    train(model, optimizer, 1, 2)
    train(other, optimizer_of(other), 3)
    assert_equal_weights(model, other)


def test_clipping_by_the_global_norm_is_over_all_groups() -> None:
    model, other = model_of(), model_of()
    optimizer = optimizer_of(model, GROUPED.replace(grad_clipping=ClipByGlobalNorm(threshold=0.1)))
    theirs = optimizer_of(other, GROUPED)
    train(model, optimizer, 1)
    loss_of(other).backward()
    nn.utils.clip_grad_norm_(other.parameters(), 0.1)
    theirs.step()
    assert_equal_weights(model, other, 1e-5)  # torch adds 1e-6 to the norm


def test_a_group_of_the_config_has_one_norm_in_however_many_groups_of_torch_it_is() -> None:
    model, other = model_of(), model_of()
    clipped = SgdConfig(grad_clipping=ClipByGlobalNorm(threshold=0.1))
    config = SgdConfig(groups=(OptimizerGroupConfig(params=ParamGroup.from_predicate("bias"), optimizer=clipped),))
    optimizer = TorchOptimizer(model, config, lr=0.1, params=model[0].parameters())
    optimizer.add_param_group({"params": [model[2].bias, model[4].bias]})
    optimizer.add_param_group({"params": [model[2].weight, model[4].weight]})
    train(model, optimizer, 1)
    loss_of(other).backward()
    nn.utils.clip_grad_norm_([other[0].bias, other[2].bias, other[4].bias], 0.1)
    torch.optim.SGD(other.parameters(), lr=0.1).step()
    assert_equal_weights(model, other, 1e-5)  # torch adds 1e-6 to the norm


def test_a_module_that_is_cast_or_replaced_in_part_is_found_again() -> None:
    model = model_of().float()
    optimizer = optimizer_of(model)
    loss_of(model.double()).backward()
    optimizer.step()
    bias = model[0].bias
    model[0].bias = nn.Parameter(torch.zeros(4, dtype=torch.float64))  # the same place, another tensor
    loss_of(model).backward()
    optimizer.step()
    assert optimizer.param_groups[0]["params"][1] is model[0].bias
    assert optimizer.param_groups[0]["params"][1] is not bias
    assert not torch.equal(model[0].bias, torch.zeros(4, dtype=torch.float64))


def test_groups_alone() -> None:
    config = OptimizerGroupsConfig(groups=(OptimizerGroupConfig(params=ParamGroup.all(), optimizer=AdamWConfig()),))
    model = model_of()
    optimizer = optimizer_of(model, config)
    assert len(optimizer.param_groups) == 1
    train(model, optimizer, 2)


def test_wrapped_modules_have_the_names_of_what_they_hold() -> None:
    model = model_of()
    optimizer = TorchOptimizer(nn.DataParallel(torch.compile(model, backend="eager")), GROUPED, lr=0.01)
    assert optimizer.param_groups[0]["param_names"] == ["0.weight", "2.weight", "4.weight"]
    other = optimizer_of(model, GROUPED)
    other.load_state_dict(optimizer.state_dict())
    train(model, optimizer, 1)
    other.load_state_dict(optimizer.state_dict())
    assert len(other.state) == 6


def test_lists_of_parameters_may_be_replaced_by_those_of_the_module_only() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    train(model, optimizer, 1)
    mapping = {}
    for layer in (model[0], model[2], model[4]):
        for name, parameter in [*layer.named_parameters()]:
            setattr(layer, name, nn.Parameter(parameter.detach().clone()))
            mapping[parameter] = getattr(layer, name)
    group = optimizer.param_groups[0]
    group["params"] = [mapping[it] for it in group["params"]]  # as Accelerate does for FSDP2
    train(model, optimizer, 1, 1)
    other = model_of()
    train(other, optimizer_of(other), 2)
    assert_equal_weights(model, other)
    group["params"] = [torch.ones(3, 3)]
    with pytest.raises(ConfigError, match=r"a tensor of shape \[3, 3\] was put into a group"):
        optimizer.step()


MOMENTUM = SgdConfig(momentum=MomentumConfig(momentum=0.8))
SHOWN: list[tuple[ModuleOptimizerConfig, dict[str, Any]]] = [
    (CONFIG, {"weight_decay": 0.1, "betas": (0.9, 0.999), "eps": 1e-5}),
    (AdamConfig(beta_1=0.8), {"weight_decay": 0.0, "betas": (0.8, 0.999), "eps": 1e-5}),
    (LionConfig(), {"weight_decay": 0.0, "betas": (0.9, 0.99)}),
    (SgdConfig(), {"weight_decay": 0.0}),
    (MOMENTUM, {"weight_decay": 0.0, "momentum": 0.8}),
    (RmsPropConfig(), {"weight_decay": 0.0, "alpha": 0.99, "momentum": 0.9, "eps": 1e-5}),
    (AdaGradConfig(), {"weight_decay": 0.0, "eps": 1e-5}),
]


@pytest.mark.parametrize(("config", "expected"), SHOWN)
def test_groups_and_defaults_show_what_a_rule_has(config: ModuleOptimizerConfig, expected: dict[str, Any]) -> None:
    optimizer = optimizer_of(model_of(), config)
    for shown in (optimizer.param_groups[0], optimizer.defaults):
        assert {name: shown[name] for name in expected} == expected
        assert not {"weight_decay", "betas", "eps", "alpha", "momentum"} & shown.keys() - expected.keys()


def test_defaults_have_what_all_groups_have() -> None:
    matrices = OptimizerGroupConfig(params=ParamGroup.from_predicate("weight"), optimizer=MuonConfig())
    optimizer = optimizer_of(model_of(), AdamWConfig(groups=(matrices,)))
    assert optimizer.param_groups[1]["momentum"] == 0.95
    assert "betas" not in optimizer.param_groups[1]
    with pytest.raises(ValueError, match="must support momentum"):
        lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=9)


SCHEDULERS: dict[str, Any] = {
    "one cycle": lambda it: lr_scheduler.OneCycleLR(it, 0.1, total_steps=9),
    "cyclic": lambda it: lr_scheduler.CyclicLR(it, 0.01, 0.1, step_size_up=3),
}


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("config", [CONFIG, MOMENTUM])
def test_schedules_of_momenta_are_followed(name: str, config: ModuleOptimizerConfig) -> None:
    model, other = model_of(), model_of()
    optimizer = optimizer_of(model, config)
    theirs: Any = theirs_of(other)
    if config is MOMENTUM:
        theirs = torch.optim.SGD(other.parameters(), lr=0.01, momentum=0.8, dampening=0.1)
    schedules = [SCHEDULERS[name](it) for it in (optimizer, theirs)]
    seen = set()
    for step in range(8):
        train(model, optimizer, 1, step)
        train(other, theirs, 1, step)
        for schedule in schedules:
            schedule.step()
        for option in ("lr", "betas" if config is CONFIG else "momentum"):
            assert optimizer.param_groups[0][option] == theirs.param_groups[0][option]
            seen.add(optimizer.param_groups[0][option])
    assert len(seen) > 8
    assert_equal_weights(model, other, 1e-11)


def options_of_groups(model: nn.Module) -> list[dict[str, Any]]:
    first, second, third = (model[place].parameters() for place in (0, 2, 4))  # pyright: ignore[reportIndexIssue]
    return [
        {"params": first, "betas": (0.5, 0.9), "name": "first"},
        {"params": second, "eps": 1e-3, "weight_decay": 0.0},
        {"params": third, "lr": 0.02},
    ]


def test_options_of_groups_are_taken() -> None:
    model, other = model_of(), model_of()
    optimizer = optimizer_of(model, params=options_of_groups(model))
    theirs = torch.optim.AdamW(options_of_groups(other), lr=0.01, eps=1e-5, weight_decay=0.1)
    assert optimizer.param_groups[0]["name"] == "first"
    train(model, optimizer, 5)
    train(other, theirs, 5)
    assert_equal_weights(model, other, 1e-12)


def test_options_go_with_state_dicts() -> None:
    model = model_of()
    optimizer = optimizer_of(model, params=options_of_groups(model))
    train(model, optimizer, 2)
    optimizer.param_groups[1]["betas"] = [0.7, 0.8]
    other = model_of()
    resumed = optimizer_of(other, params=[{"params": it["params"]} for it in options_of_groups(other)])
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    assert resumed.param_groups[0]["name"] == "first"
    train(model, optimizer, 2, 2)
    train(other, resumed, 2, 2)
    assert_equal_weights(other, model)


REFUSED: list[tuple[ModuleOptimizerConfig, dict[str, Any], str]] = [
    (CONFIG, {"maximize": True}, "'maximize' can't be set .* set it in the config"),
    (CONFIG, {"amsgrad": True}, "'amsgrad' can't be set"),
    (CONFIG, {"beta_1": 0.5}, "'beta_1' can't be set"),
    (CONFIG, {"momentum": 0.5}, "momentum: AdamW has none"),
    (MOMENTUM, {"nesterov": True}, "'nesterov' can't be set"),
    (SgdConfig(), {"betas": (0.9, 0.9)}, "betas: Sgd has none"),
    (CONFIG, {"betas": 0.9}, r"betas: expected 2 numbers for AdamW, got 0\.9"),
    (CONFIG, {"betas": (0.9, 0.9, 0.9)}, "betas: expected 2 numbers"),
    (CONFIG, {"betas": (0.9, 1.0)}, "beta_2"),
    (CONFIG, {"eps": "small"}, "eps: expected a number, got 'small'"),
    (CONFIG, {"eps": -1.0}, "epsilon"),
]


@pytest.mark.parametrize(("config", "options", "message"), REFUSED)
def test_what_would_have_no_effect_or_is_out_of_range_is_refused(
    config: ModuleOptimizerConfig, options: dict[str, Any], message: str
) -> None:
    model = model_of()
    with pytest.raises(ConfigError, match=message):
        optimizer_of(model, config, params=[{"params": model.parameters(), **options}])
    optimizer = optimizer_of(model, config)
    optimizer.param_groups[0].update(options)
    with pytest.raises(ConfigError, match=message):
        train(model, optimizer, 1)
    assert_equal_weights(model, model_of())


def test_what_is_as_in_the_config_may_be_said() -> None:
    model = model_of()
    options = {"maximize": False, "foreach": True, "fused": None, "betas": [0.9, 0.999]}
    optimizer = optimizer_of(model, params=[{"params": model.parameters(), **options}])
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)


def test_a_rule_without_a_config_has_no_options() -> None:
    class Plain(SimpleOptimizer[None]):
        state_type = type(None)

        def step(self, lr: Any, tensor: Any, grad: Any, state: Any) -> Any:
            return tensor - grad * lr, None

    model = model_of()
    with pytest.raises(ConfigError, match="weight_decay: Plain has none"):
        TorchOptimizer(
            model, OptimizerAdaptor(Plain()), lr=0.1, params=[{"params": model.parameters(), "weight_decay": 0.1}]
        )


def test_options_written_together_take_effect_together() -> None:
    model = model_of()
    optimizer = optimizer_of(model, GROUPED)
    train(model, optimizer, 1)
    base, biases = optimizer.param_groups
    base["weight_decay"], biases["weight_decay"] = 0.5, -1.0
    with pytest.raises(ConfigError, match="weight_decay"):
        optimizer.step()
    biases["weight_decay"] = 0.0
    other = model_of()
    control = optimizer_of(other, GROUPED.replace(weight_decay=0.5))
    other.load_state_dict(model.state_dict())
    control.load_state_dict(optimizer.state_dict())
    train(model, optimizer, 1, 1)
    train(other, control, 1, 1)
    assert_equal_weights(model, other)


@pytest.mark.parametrize(("option", "value"), [("betas", (0.9, 1.5)), ("lr", float("nan")), ("lr", -1.0)])
def test_a_load_with_an_option_out_of_range_changes_nothing(option: str, value: Any) -> None:
    model = model_of()
    optimizer, other = optimizer_of(model), optimizer_of(model)
    train(model, optimizer, 2)
    train(model, other, 1)
    saved = optimizer.state_dict()
    saved["param_groups"][0][option] = value
    before = repr(other.state_dict())
    with pytest.raises((ArgumentError, ConfigError)) as caught:
        other.load_state_dict(saved)
    assert isinstance(caught.value, BurnlikeError)
    assert repr(other.state_dict()) == before
