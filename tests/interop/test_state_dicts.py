"""State dicts in torch's layout and of torch's own optimizers, matched by ids and names; steps go on as before."""

import copy
import io
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike import optim
from burnlike.errors import RecordMismatchError
from burnlike.module import ParamGroup, fresh_ids
from burnlike.optim import AdamWConfig, OptimizerGroupConfig, SgdConfig
from burnlike.optim.rules.configs import MomentumConfig
from burnlike.record import Record

from .models import CONFIG, GROUPED, assert_equal_weights, loss_of, model_of, optimizer_of, train


def swapped(model: nn.Sequential, *, named: bool = False) -> nn.Sequential:
    """The model with its two layers of one shape, which compute one after the other, in the other order."""
    names = [name for name, _ in model.named_children()]
    names[2], names[4] = names[4], names[2]
    return (
        nn.Sequential(OrderedDict((name, model.get_submodule(name)) for name in names))
        if named
        else nn.Sequential(*(model.get_submodule(name) for name in names))
    )


def saved_and_loaded(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_the_layout_is_that_of_torch() -> None:
    model = model_of()
    optimizer = optimizer_of(model, GROUPED)
    train(model, optimizer, 2)
    found = optimizer.state_dict()
    assert list(found) == ["state", "param_groups"]
    assert sorted(found["state"]) == [0, 1, 2, 3, 4, 5]
    assert [group["params"] for group in found["param_groups"]] == [[0, 1, 2], [3, 4, 5]]
    assert found["param_groups"][1]["param_names"] == ["0.bias", "2.bias", "4.bias"]
    assert [len(it) for it in found["param_groups"][0]["param_ids"]] == [13, 13, 13]
    assert type(found["state"][0]) is dict
    assert sorted(found["state"][0]) == ["momentum.moment_1", "momentum.moment_2", "momentum.time"]


@pytest.mark.parametrize("config", [CONFIG, GROUPED, SgdConfig(), AdamWConfig(amsgrad=True)])
def test_training_goes_on_from_a_file(config: Any) -> None:
    model = model_of()
    optimizer = optimizer_of(model, config)
    train(model, optimizer, 2)
    optimizer.param_groups[0]["lr"] = 0.003
    twin = copy.deepcopy(model)
    other = optimizer_of(twin, config)
    other.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    assert other.param_groups[0]["lr"] == 0.003
    assert other.load_report is not None
    assert not other.load_report.by_path
    train(model, optimizer, 2, 2)
    train(twin, other, 2, 2)
    assert_equal_weights(twin, model)


def trained_pair() -> tuple[nn.Sequential, Any, nn.Sequential, Any]:
    """Twice the same model after the same steps, with the optimizer of this package and with torch's."""
    model, other = model_of(), model_of()
    optimizer, theirs = optimizer_of(model), torch.optim.AdamW(other.named_parameters(), lr=0.01)
    train(model, optimizer, 3)
    train(other, theirs, 3)
    return model, optimizer, other, theirs


def test_states_follow_layers_that_changed_places_where_torch_swaps_them_silently() -> None:
    model, optimizer, other, theirs = trained_pair()
    reordered = swapped(copy.deepcopy(model))  # layers keep their ids, the source has them in another order
    resumed = optimizer_of(reordered)
    resumed.load_state_dict(optimizer.state_dict())
    for here, there in ((2, 4), (4, 2)):
        moment = resumed.state[reordered[here].weight]["momentum.moment_1"]
        assert torch.equal(moment, optimizer.state[model[there].weight]["momentum.moment_1"])

    wrong = swapped(copy.deepcopy(other))
    silently = torch.optim.AdamW(wrong.named_parameters(), lr=0.01)
    silently.load_state_dict(theirs.state_dict())
    assert torch.equal(silently.state[wrong[2].weight]["exp_avg"], theirs.state[other[2].weight]["exp_avg"])
    assert not torch.equal(silently.state[wrong[2].weight]["exp_avg"], theirs.state[other[4].weight]["exp_avg"])


def test_names_decide_where_ids_are_others() -> None:
    model, optimizer, _, _ = trained_pair()
    reordered = fresh_ids(swapped(copy.deepcopy(model), named=True))
    resumed = optimizer_of(reordered)
    state = optimizer.state_dict()
    resumed.load_state_dict(state)
    assert resumed.load_report is not None
    assert sorted(resumed.load_report.by_path) == sorted(name for name, _ in model.named_parameters())
    moment = resumed.state[reordered.get_submodule("4").weight]["momentum.moment_1"]
    assert torch.equal(moment, optimizer.state[model[4].weight]["momentum.moment_1"])
    for group in state["param_groups"]:
        del group["param_ids"]
    again = optimizer_of(reordered)
    again.load_state_dict(state)
    assert torch.equal(again.state[reordered.get_submodule("4").weight]["momentum.moment_1"], moment)


def test_states_follow_a_renaming_by_the_load_of_the_module() -> None:
    model, optimizer, _, _ = trained_pair()
    renamed = nn.Sequential(OrderedDict(zip("abcde", model_of(2), strict=True)))
    report = Record.from_module(model).load_into(renamed, remap=[("^0", "a"), ("^2", "c"), ("^4", "e")])
    fresh_ids(renamed)
    resumed = optimizer_of(renamed)
    state = optimizer.state_dict()
    with pytest.raises(RecordMismatchError, match="no parameter has that id or path"):
        resumed.load_state_dict(state)
    resumed.load_state_dict(state, report=report)
    moment = resumed.state[renamed.get_submodule("c").weight]["momentum.moment_1"]
    assert torch.equal(moment, optimizer.state[model[2].weight]["momentum.moment_1"])


def test_each_state_keeps_its_dtype() -> None:
    model = model_of().bfloat16()
    optimizer = optimizer_of(model)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1 / 3)
    optimizer.step()
    assert optimizer.state[model[0].weight]["momentum.moment_1"].dtype == torch.float32
    resumed = optimizer_of(model)
    resumed.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    for parameter in model.parameters():
        for name, value in resumed.state[parameter].items():
            if isinstance(value, torch.Tensor):
                assert value.dtype == torch.float32
                assert torch.equal(value, optimizer.state[parameter][name])


def test_states_of_frozen_parameters_are_kept() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    train(model, optimizer, 2)
    model[0].requires_grad_(False)
    resumed = optimizer_of(model)
    resumed.load_state_dict(optimizer.state_dict())
    assert resumed.state[model[0].weight]["momentum.time"] == 2


def test_other_groups_take_over_their_parameters_options() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    train(model, optimizer, 1)
    optimizer.param_groups[0]["lr"] = 0.004
    divided = optimizer_of(model, GROUPED)
    divided.load_state_dict(optimizer.state_dict())
    assert [group["lr"] for group in divided.param_groups] == [0.004, 0.004]
    kept = optimizer_of(model, GROUPED)
    kept.load_state_dict(optimizer.state_dict(), keep_options=True)
    assert [group["lr"] for group in kept.param_groups] == [0.01, 0.005]
    with pytest.raises(RecordMismatchError, match=r"whose options differ.*keep_options=True"):
        optimizer.load_state_dict(kept.state_dict())
    optimizer.load_state_dict(kept.state_dict(), keep_options=True)
    assert optimizer.param_groups[0]["lr"] == 0.004


def test_states_of_no_parameter() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    train(model, optimizer, 1)
    part = optimizer_of(model, params=model[0].parameters())
    with pytest.raises(RecordMismatchError, match=r"states of '2\.weight'.*prune_orphans=True"):
        part.load_state_dict(optimizer.state_dict())
    part.load_state_dict(optimizer.state_dict(), prune_orphans=True)
    assert len(part.state) == 2


def without(state: dict[str, Any], *names: str) -> dict[str, Any]:
    groups = [{name: it for name, it in group.items() if name not in names} for group in state["param_groups"]]
    return {**state, "param_groups": groups}


def with_group(state: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**state, "param_groups": [{**group, **changes} for group in state["param_groups"]]}


DAMAGES: dict[str, tuple[Any, str]] = {
    "no identities": (lambda it: without(it, "param_names", "param_ids"), "neither param_ids nor param_names"),
    "no groups": (lambda it: {"state": it["state"]}, "expected the state dict of an optimizer"),
    "nothing": (lambda it: 3, "expected the state dict of an optimizer"),
    "a state of none": (lambda it: {**it, "state": {**it["state"], 9: {}}}, "a state of 9"),
    "a wrong id": (lambda it: with_group(it, param_ids=["?"] * 6), "param_ids: Invalid id"),
    "too few names": (lambda it: with_group(it, param_names=["a"]), "expected param_names with a text for each"),
    "no texts": (lambda it: with_group(it, param_ids=[1] * 6), "expected param_ids with a text for each"),
    "another field": (lambda it: {**it, "state": {0: {"x": 1}}}, "none of AdamW"),
    "another shape": (
        lambda it: {**it, "state": {0: {**it["state"][0], "momentum.moment_1": torch.ones(2)}}},
        r"0\.weight, momentum\.moment_1: expected \[4, 3\], got \[2\]",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_does_not_fit_changes_nothing(name: str) -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    train(model, optimizer, 1)
    before = copy.deepcopy(optimizer.state_dict())
    damage, message = DAMAGES[name]
    with pytest.raises(RecordMismatchError, match=message):
        optimizer.load_state_dict(damage(optimizer.state_dict()))
    assert repr(optimizer.state_dict()) == repr(before)


def test_the_state_of_another_optimizer_is_refused() -> None:
    model = model_of()
    ours = optimizer_of(model, SgdConfig())
    loss_of(model).backward()
    ours.step()
    with pytest.raises(RecordMismatchError, match="none of AdamW"):
        optimizer_of(model).load_state_dict(
            {"state": {0: {"momentum.velocity": torch.ones(4, 3)}}, "param_groups": ours.state_dict()["param_groups"]}
        )


def test_hooks_of_state_dicts_are_called() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    called: list[str] = []
    optimizer.register_state_dict_pre_hook(lambda it: called.append("before"))
    optimizer.register_state_dict_post_hook(lambda it, state: {**state, "extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda it, state: {**state, "extra": called.append("load")})
    optimizer.register_load_state_dict_post_hook(lambda it: called.append("loaded"))
    state = optimizer.state_dict()
    assert state["extra"] == 1
    optimizer.load_state_dict(state)
    assert called == ["before", "load", "loaded"]


def test_stochastic_rounding_goes_on_with_the_same_draws() -> None:
    config = CONFIG.replace(stochastic_rounding=True)

    def steps(model: nn.Module, optimizer: Any, count: int) -> None:
        for _ in range(count):
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, 1 / 3)
            optimizer.step()

    model = model_of().bfloat16()
    optimizer = optimizer_of(model, config)
    steps(model, optimizer, 2)
    twin = copy.deepcopy(model)
    resumed = optimizer_of(twin, config)
    resumed.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    steps(model, optimizer, 2)
    steps(twin, resumed, 2)
    assert_equal_weights(twin, model)


def test_a_group_by_ids_survives_renaming() -> None:
    model = model_of()
    config = CONFIG.replace(groups=(OptimizerGroupConfig(params=ParamGroup.ids_from_module(model[4]), lr_factor=0.1),))
    optimizer = optimizer_of(model, config)
    reordered = swapped(copy.deepcopy(model))
    other = optimizer_of(reordered, config)
    assert optimizer.param_groups[1]["param_names"] == ["4.weight", "4.bias"]
    assert other.param_groups[1]["param_names"] == ["2.weight", "2.bias"]


# Of each rule the config and the optimizer of torch, with options away from both defaults.
PAIRS: list[tuple[Any, Any]] = [
    (
        optim.AdamWConfig(beta_1=0.8, epsilon=1e-6, weight_decay=0.1),
        lambda it: torch.optim.AdamW(it, lr=0.01, betas=(0.8, 0.999), eps=1e-6, weight_decay=0.1),
    ),
    (
        optim.AdamWConfig(amsgrad=True, weight_decay=0.01, epsilon=1e-8),
        lambda it: torch.optim.AdamW(it, lr=0.01, amsgrad=True),
    ),
    (optim.AdamConfig(weight_decay=0.1, epsilon=1e-8), lambda it: torch.optim.Adam(it, lr=0.01, weight_decay=0.1)),
    (
        optim.SgdConfig(momentum=MomentumConfig(momentum=0.7, dampening=0.0, nesterov=True)),
        lambda it: torch.optim.SGD(it, lr=0.01, momentum=0.7, nesterov=True),
    ),
    (optim.SgdConfig(weight_decay=0.1), lambda it: torch.optim.SGD(it, lr=0.01, weight_decay=0.1)),
    (
        optim.RmsPropConfig(centered=True, momentum=0.5, epsilon=1e-8),
        lambda it: torch.optim.RMSprop(it, lr=0.01, centered=True, momentum=0.5),
    ),
    (optim.AdaGradConfig(lr_decay=0.1, epsilon=1e-10), lambda it: torch.optim.Adagrad(it, lr=0.01, lr_decay=0.1)),
]
NAMES = [f"{type(config).__name__}-{place}" for place, (config, _) in enumerate(PAIRS)]


def train_on(model: nn.Module, optimizer: Any, steps: int, start: int = 0) -> list[Tensor]:
    for step in range(start, start + steps):
        optimizer.zero_grad()
        x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
        model(x).square().mean().backward()
        optimizer.step()
    return [it.detach().clone() for it in model.parameters()]


def two_layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


@pytest.mark.parametrize(("config", "make"), PAIRS, ids=NAMES)
def test_a_training_goes_on_in_the_other_optimizer(config: Any, make: Any) -> None:
    whole = two_layers()
    expected = train_on(whole, make(whole.parameters()), 6)
    model = two_layers()
    theirs = make(model.parameters())
    train_on(model, theirs, 3)
    other = copy.deepcopy(model)
    ours = bl.interop.TorchOptimizer(model, config, lr=0.5)
    ours.load_state_dict(theirs.state_dict())
    assert ours.param_groups[0]["lr"] == 0.01
    torch.testing.assert_close(train_on(model, ours, 3, 3), expected, rtol=1e-9, atol=1e-12)

    ours = bl.interop.TorchOptimizer(other, config, lr=0.01)
    ours.load_state_dict(theirs.state_dict())
    back = make(other.parameters())
    back.load_state_dict(ours.state_dict(form="torch"))
    torch.testing.assert_close(train_on(other, back, 3, 3), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("config", "make", "message"),
    [
        (optim.AdamConfig(), lambda it: torch.optim.AdamW(it), "decoupled_weight_decay=True"),
        (optim.AdamWConfig(), lambda it: torch.optim.AdamW(it, amsgrad=True), "amsgrad=True"),
        (optim.AdamWConfig(), lambda it: torch.optim.AdamW(it, maximize=True), "maximize=True"),
        (optim.SgdConfig(), lambda it: torch.optim.SGD(it, lr=0.1, momentum=0.9), "momentum=0.9"),
        (optim.AdamWConfig(), lambda it: torch.optim.AdamW(list(it)[:2]), r"groups of \[2\] parameters"),
        (optim.AdamWConfig(), lambda it: torch.optim.AdamW([*it][::-1]), r"expected shape \[4, 3\], got \[2\]"),
        (optim.LionConfig(), lambda it: torch.optim.AdamW(it), "rule is Lion"),
        (optim.AdafactorConfig(), torch.optim.Adafactor, "states of torch's other optimizers are not converted"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(config: Any, make: Any, message: str) -> None:
    model = two_layers()
    theirs = make(model.parameters())
    train_on(model, theirs, 1)
    ours = bl.interop.TorchOptimizer(model, config, lr=0.5)
    with pytest.raises(RecordMismatchError, match=message):
        ours.load_state_dict(theirs.state_dict())
    assert not ours.state
    assert ours.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("config", [optim.LionConfig(), optim.AdafactorConfig()])
def test_states_that_are_not_converted_have_no_form_of_torch(config: Any) -> None:
    with pytest.raises(RecordMismatchError, match=r"one of torch's 'Adam or AdamW'.* 'Adagrad', got (Lion|Adafactor)"):
        bl.interop.TorchOptimizer(two_layers(), config, lr=0.1).state_dict(form="torch")


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 2, dtype=torch.complex64))
        self.real = nn.Parameter(torch.randn(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight.abs().square() + self.weight.real * self.real + self.weight.imag).sum() + 0 * x.sum()


@pytest.mark.parametrize(("config", "make"), PAIRS, ids=NAMES)
def test_complex_parameters_are_stepped_as_torch_does(config: Any, make: Any, tmp_path: Any) -> None:
    torch.manual_seed(0)
    model = Complex()
    twin = copy.deepcopy(model)
    expected = train_on(twin, make(twin.parameters()), 4)
    ours = bl.interop.TorchOptimizer(model, config, lr=0.01)
    train_on(model, ours, 2)
    ours.save(tmp_path / "state")
    again = bl.interop.TorchOptimizer(model, config, lr=0.01)
    again.load(tmp_path / "state")
    moments = [it for fields in again.state_dict()["state"].values() for it in fields.values() if torch.is_tensor(it)]
    assert all(it.shape in ((), (3, 2)) for it in moments)
    torch.testing.assert_close(train_on(model, again, 2, 2), expected, rtol=1e-5, atol=1e-6)


def test_rules_of_whole_tensors_refuse_complex_ones() -> None:
    model = Complex()
    ours = bl.interop.TorchOptimizer(model, optim.MuonConfig(), lr=0.01)
    with pytest.raises(bl.errors.DTypeError, match="can't step 'weight', which is complex"):
        train_on(model, ours, 1)


def test_names_decide_where_the_dict_has_them() -> None:
    model = two_layers()
    theirs = torch.optim.AdamW([*model.named_parameters()][::-1], lr=0.01)
    train_on(model, theirs, 1)
    ours = bl.interop.TorchOptimizer(model, optim.AdamWConfig(), lr=0.5)
    ours.load_state_dict(theirs.state_dict())
    for parameter in model.parameters():
        assert torch.equal(ours.state[parameter]["momentum.moment_1"], theirs.state[parameter]["exp_avg"])
    other = torch.optim.AdamW([(f"a.{name}", it) for name, it in model.named_parameters()])
    with pytest.raises(RecordMismatchError, match=r"has a state of 'a\.0\.weight'"):
        ours.load_state_dict(other.state_dict())
