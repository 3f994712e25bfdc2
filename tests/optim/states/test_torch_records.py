"""torch's optimizers as records: the same bits after a load, states at their parameters."""

import copy
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import RecordError, RecordMismatchError
from burnlike.module import fresh_ids, params
from burnlike.optim import load_torch_record, torch_record
from burnlike.record import Record, SafetensorsRecorder

MAKERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "adam": lambda it: torch.optim.Adam(it.parameters(), lr=0.01, betas=(0.8, 0.9), amsgrad=True),
    "adamw": lambda it: torch.optim.AdamW(it.parameters(), lr=torch.tensor(0.01), capturable=False, foreach=False),
    "sgd": lambda it: torch.optim.SGD(it.parameters(), lr=0.01),
    "sgd_momentum": lambda it: torch.optim.SGD(
        [{"params": it[0].parameters(), "lr": 0.02}, {"params": it[2].parameters()}], lr=0.01, momentum=0.9
    ),
    "adafactor": lambda it: torch.optim.Adafactor(it.parameters(), lr=0.01),
    "lbfgs": lambda it: torch.optim.LBFGS(it.parameters(), lr=0.1, max_iter=3, history_size=4),
    "rmsprop": lambda it: torch.optim.RMSprop(it.parameters(), lr=0.01, centered=True, momentum=0.5),
}


def model_of() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    x = torch.linspace(-1, 1, 15).reshape(5, 3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("saved", [False, True])
def test_a_record_continues_bit_for_bit(tmp_path: Path, name: str, saved: bool) -> None:
    model = model_of()
    optimizer = MAKERS[name](model)
    train(model, optimizer, 3)
    record = torch_record(optimizer, model)
    twin = copy.deepcopy(model)
    fresh = MAKERS[name](twin)
    if saved:
        record = SafetensorsRecorder().load(SafetensorsRecorder().save(record, tmp_path / "optimizer"))
    report = load_torch_record(fresh, record, twin)
    assert not report.by_path
    train(model, optimizer, 2)
    train(twin, fresh, 2)
    for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert repr(fresh.state_dict()["param_groups"]) == repr(optimizer.state_dict()["param_groups"])


def test_states_follow_their_parameters_to_other_places_and_by_path() -> None:
    model = model_of()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, 2)
    twin = fresh_ids(copy.deepcopy(model))
    backwards = torch.optim.Adam(reversed([*twin.parameters()]))
    report = load_torch_record(backwards, torch_record(optimizer, model), twin)
    assert sorted(report.by_path) == ["0.bias", "0.weight", "2.bias", "2.weight"]
    for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        assert torch.equal(backwards.state[ours]["exp_avg"], optimizer.state[theirs]["exp_avg"])


def two_groups(model: nn.Module, first: str, **second: float) -> torch.optim.Optimizer:
    """Adam whose parameters with `first` in their names are the first group; the others have options of their own."""
    named = [*model.named_parameters()]
    groups = [{"params": [it for name, it in named if first in name]}, {"params": [], **second}]
    groups[1]["params"] = [it for name, it in named if first not in name]
    return torch.optim.Adam(groups, lr=0.01)


def test_options_follow_the_parameters_when_groups_change_places() -> None:
    model = model_of()
    optimizer = two_groups(model, "bias", lr=0.5, weight_decay=0.1)
    train(model, optimizer, 2)
    record = torch_record(optimizer, model)
    twin = copy.deepcopy(model)
    swapped = two_groups(twin, "weight")
    load_torch_record(swapped, record, twin)
    assert [(it["lr"], it["weight_decay"]) for it in swapped.param_groups] == [(0.5, 0.1), (0.01, 0)]
    train(model, optimizer, 2)
    train(twin, swapped, 2)
    for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_group_of_parameters_whose_options_differed_is_refused() -> None:
    model = model_of()
    optimizer = two_groups(model, "bias", weight_decay=0.1)
    train(model, optimizer, 1)
    mixed = two_groups(model, "0.")
    with pytest.raises(RecordMismatchError, match="group 0 has parameters that were in the groups 0 and 1, whose opt"):
        load_torch_record(mixed, torch_record(optimizer, model), model)
    assert not mixed.state
    same = two_groups(model, "bias")
    load_torch_record(mixed, torch_record(same, model), model)


def test_states_keep_a_dtype_of_their_own() -> None:
    model = nn.Linear(2, 2).bfloat16()
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        optimizer.state[parameter] = {
            "step": torch.tensor(1.0),
            "exp_avg": torch.full_like(parameter, 1 / 3, dtype=torch.float32),
            "exp_avg_sq": torch.full_like(parameter, 1 / 3, dtype=torch.float32),
        }
    fresh = torch.optim.Adam(model.parameters())
    load_torch_record(fresh, torch_record(optimizer, model), model)
    for parameter in model.parameters():
        assert fresh.state[parameter]["exp_avg"].dtype == torch.float32
        assert torch.equal(fresh.state[parameter]["exp_avg"], optimizer.state[parameter]["exp_avg"])


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    model = model_of()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, 1)
    record = torch_record(optimizer, model)
    before = copy.deepcopy(optimizer.state_dict())
    for other, message in (
        (torch.optim.AdamW(model.parameters()), "expected the record of a AdamW of torch, got .* of Adam"),
        (torch.optim.Adam([{"params": [it]} for it in model.parameters()]), "expected 4 parameter groups, got 1"),
        (torch.optim.Adam(model[0].parameters()), r"does not fit the model: it has states of '2\.weight'"),
    ):
        with pytest.raises(RecordMismatchError, match=message):
            load_torch_record(other, record, model)
        assert not other.state
    wide = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    with pytest.raises(RecordMismatchError, match=r"0\.weight: expected \[5, 3\], got \[4, 3\]"):
        load_torch_record(torch.optim.Adam(wide.parameters()), record, wide)
    with pytest.raises(RecordMismatchError, match="expected the record of a Adam"):
        load_torch_record(optimizer, Record.from_module(model), model)
    assert repr(optimizer.state_dict()) == repr(before)
    with pytest.raises(RecordError, match="parameter 0 of group 0 of SGD belongs to none of the modules"):
        torch_record(torch.optim.SGD([nn.Parameter(torch.ones(1))]), model)


def test_names_of_parameters_are_those_of_the_optimizer_that_loads() -> None:
    model = model_of()
    optimizer = torch.optim.Adam(model.named_parameters(), lr=0.5)
    train(model, optimizer, 1)
    renamed = nn.Sequential(OrderedDict(zip(("head", "act", "tail"), copy.deepcopy(model), strict=True)))
    fresh = torch.optim.Adam(reversed([*renamed.named_parameters()]))
    report = Record.from_module(model).load_into(renamed, remap=[("^0", "head"), ("^2", "tail")])
    load_torch_record(fresh, torch_record(optimizer, model), renamed, report=report)
    assert fresh.param_groups[0]["param_names"] == ["tail.bias", "tail.weight", "head.bias", "head.weight"]
    assert fresh.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"paths": {"0000000000001": {}}}, "expected the path of 0000000000001 as a text"),
        ({"param_groups": [3]}, "expected the record of a Adam of torch"),
        ({"shapes": []}, "expected the record of a Adam of torch"),
        ({"param_groups": [{"$tuple": [1], "params": []}]}, "expected the options of a parameter group"),
        ({"param_groups": [{"params": 3}]}, "expected the record of a Adam of torch"),
    ],
)
def test_damaged_records_are_refused(damage: dict[str, Any], message: str) -> None:
    model = model_of()
    optimizer = torch.optim.Adam(model.parameters())
    record = torch_record(optimizer, model)
    with pytest.raises(RecordMismatchError, match=message):
        load_torch_record(optimizer, replace(record, values={**record.values, **damage}), model, prune_orphans=True)


def test_a_record_without_modules_leaves_the_ids_of_the_parameters_alone() -> None:
    model = nn.Linear(2, 2)
    before = [param.id for param in params(model)]
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    load_torch_record(optimizer, torch_record(optimizer))
    assert [param.id for param in params(model)] == before
