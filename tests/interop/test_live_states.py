"""States of a TorchOptimizer: live, in torch's distributed checkpoints, and after layers changed places."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    get_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)

from burnlike.errors import RecordMismatchError
from burnlike.interop import TorchOptimizer
from burnlike.module import seed_param_ids
from burnlike.module.tree.walk import Walk
from burnlike.optim import AdamWConfig, OptimizerAdaptor, RmsPropConfig, ScheduleFreeAdamWConfig
from burnlike.record import load, save

from .models import CONFIG, GROUPED, assert_equal_weights, model_of, optimizer_of, theirs_of, train, weights_of


def test_states_are_live() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    assert not optimizer.state
    assert dict(optimizer.state[model[0].weight]) == {}
    assert model[0].weight not in optimizer.state
    train(model, optimizer, 2)
    state = optimizer.state[model[0].weight]
    moment = state["momentum.moment_1"]
    before = moment.clone()
    train(model, optimizer, 1, 2)
    assert state["momentum.time"] == 3
    assert optimizer.state[model[0].weight]["momentum.moment_1"].data_ptr() == moment.data_ptr()
    assert not torch.equal(moment, before)
    assert len(optimizer.state) == 6
    assert all(it is parameter for it, parameter in zip(optimizer.state, model.parameters(), strict=True))
    assert optimizer.state.get(torch.ones(1)) is None


def test_what_is_written_into_states_is_taken_over() -> None:
    model, other = model_of(), model_of()
    optimizer, control = optimizer_of(model), optimizer_of(other)
    train(model, optimizer, 2)
    train(other, control, 2)
    for parameter, state in optimizer.state.items():  # as Lightning moves them
        optimizer.state[parameter] = type(state)({name: copy.deepcopy(value) for name, value in state.items()})
    train(model, optimizer, 1, 2)
    train(other, control, 1, 2)
    assert_equal_weights(model, other)
    optimizer.state[model[0].bias]["momentum.time"] = 7
    assert optimizer.state_dict()["state"][1]["momentum.time"] == 7
    with pytest.raises(RecordMismatchError, match="no_such"):
        optimizer.state[model[0].bias]["momentum.no_such"] = 7
    del optimizer.state[model[0].bias]
    assert model[0].bias not in optimizer.state
    optimizer.state = {}
    assert not optimizer.state


def test_a_copy_goes_on_alike() -> None:
    model = model_of()
    optimizer = optimizer_of(model, GROUPED)
    train(model, optimizer, 2)
    twins = [copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))]
    train(model, optimizer, 2, 2)
    for twin, its_optimizer in twins:
        assert its_optimizer.param_groups[0]["params"][0] is twin[0].weight
        train(twin, its_optimizer, 2, 2)
        assert_equal_weights(twin, model)


def test_states_of_tensors_that_the_module_no_longer_has_are_not_found() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    train(model, optimizer, 1)
    bias = model[4].bias
    del model[4].bias
    model[4].register_parameter("bias", None)
    assert bias not in optimizer.state
    weight = model[2].weight
    del model[2].weight
    assert weight not in optimizer.state
    assert len(optimizer.state) == 4


USES: dict[str, Callable[[TorchOptimizer], Any]] = {
    "state dict": lambda it: it.state_dict(),
    "all states": lambda it: [dict(state) for state in it.state.values()],
    "one after the other": lambda it: [it.state[tensor] for tensor in it.param_groups[0]["params"]],
    "replaced": lambda it: setattr(it, "state", {tensor: state.copy() for tensor, state in it.state.items()}),
}


@pytest.mark.parametrize("use", USES)
def test_the_module_is_not_looked_through_for_each_parameter(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(layers: int) -> int:
        model = nn.Sequential(*(nn.Linear(1, 1).double() for _ in range(layers)))
        optimizer = optimizer_of(model)
        model(torch.ones(1, 1).double()).sum().backward()
        optimizer.step()
        looked: list[int] = []
        values = Walk.values
        with monkeypatch.context() as patch:
            patch.setattr(Walk, "values", lambda walk: [looked.append(1), values(walk)][1])
            USES[use](optimizer)
        return len(looked)

    assert count(20) == count(2)


def test_an_adaptor_with_states_is_taken() -> None:
    model = model_of()
    first = optimizer_of(model)
    train(model, first, 2)
    other = copy.deepcopy(model)
    adaptor: OptimizerAdaptor[Any] = CONFIG.init().load_record(first.adaptor.to_record(), other)
    second = TorchOptimizer(other, adaptor, lr=0.01)
    train(model, first, 2, 2)
    train(other, second, 2, 2)
    assert_equal_weights(model, other)


def test_frozen_parameters_are_left_alone_until_they_have_a_gradient() -> None:
    model = model_of()
    model[0].requires_grad_(False)
    optimizer = optimizer_of(model)
    before = model[0].weight.detach().clone()
    train(model, optimizer, 2)
    assert torch.equal(model[0].weight, before)
    model[0].requires_grad_(True)
    train(model, optimizer, 1)
    assert optimizer.state[model[0].weight]["momentum.time"] == 1
    assert not torch.equal(model[0].weight, before)


def test_weights_to_evaluate_with_are_put_in_and_taken_out() -> None:
    model = model_of()
    optimizer = optimizer_of(model, ScheduleFreeAdamWConfig())
    train(model, optimizer, 3)
    before = weights_of(model)
    optimizer.eval()
    assert not torch.equal(model[0].weight, before[0])
    optimizer.train()
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
@pytest.mark.parametrize("config", [CONFIG, GROUPED, RmsPropConfig()])
def test_a_checkpoint_in_files_goes_on_alike(tmp_path: Path, config: Any) -> None:
    model = model_of()
    optimizer = optimizer_of(model, config)
    train(model, optimizer, 2)
    optimizer.param_groups[0]["lr"] = 0.003
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=str(tmp_path / "checkpoint"))

    twin = model_of(2)
    other = optimizer_of(twin, config)
    weights, states = get_state_dict(twin, other)
    dcp.load({"model": weights, "optimizer": states}, checkpoint_id=str(tmp_path / "checkpoint"))
    set_state_dict(twin, other, model_state_dict=weights, optim_state_dict=states)
    assert other.param_groups[0]["lr"] == 0.003
    train(model, optimizer, 2, 2)
    train(twin, other, 2, 2)
    assert_equal_weights(twin, model)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
@pytest.mark.parametrize("options", [{}, {"full_state_dict": True}, {"flatten_optimizer_state_dict": True}])
def test_a_state_dict_by_names_goes_on_alike(options: dict[str, bool]) -> None:
    model = model_of()
    optimizer = optimizer_of(model, GROUPED)
    train(model, optimizer, 2)
    given = StateDictOptions(**options)
    states = copy.deepcopy(get_optimizer_state_dict(model, optimizer, options=given))
    twin = copy.deepcopy(model)
    other = optimizer_of(twin, GROUPED)
    set_optimizer_state_dict(twin, other, states, options=given)
    train(model, optimizer, 2, 2)
    train(twin, other, 2, 2)
    assert_equal_weights(twin, model)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
def test_the_state_of_a_frozen_parameter_stays() -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    train(model, optimizer, 2)
    model[0].requires_grad_(False)
    states = get_optimizer_state_dict(model, optimizer)
    assert states["state"]["0.weight"]["momentum.time"] == 2
    train(model, optimizer, 1)
    set_optimizer_state_dict(model, optimizer, states)
    assert optimizer.state[model[0].weight]["momentum.time"] == 2
    assert optimizer.state[model[2].weight]["momentum.time"] == 2


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
@pytest.mark.parametrize("through_files", [False, True])
def test_a_new_process_is_told_which_states_of_frozen_parameters_torch_left_out(
    tmp_path: Path, through_files: bool
) -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    train(model, optimizer, 2)
    model[0].requires_grad_(False)
    states = get_optimizer_state_dict(model, optimizer)
    twin = copy.deepcopy(model)
    other = optimizer_of(twin)
    if through_files:
        dcp.save({"optimizer": states}, checkpoint_id=str(tmp_path / "checkpoint"))
        states = get_optimizer_state_dict(twin, other)
        dcp.load({"optimizer": states}, checkpoint_id=str(tmp_path / "checkpoint"))
    with pytest.warns(UserWarning, match=r"lacks states .* of '0\.weight', '0\.bias'; .*freeze after"):
        set_optimizer_state_dict(twin, other, states)
    assert twin[0].weight not in other.state
    twin[0].requires_grad_(True)
    again = optimizer_of(twin)
    set_optimizer_state_dict(twin, again, get_optimizer_state_dict(model, optimizer))
    twin[0].requires_grad_(False)
    assert again.state[twin[0].weight]["momentum.time"] == 2


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
def test_a_load_into_an_optimizer_without_states_does_not_lose_them_silently(tmp_path: Path) -> None:
    model = model_of()
    optimizer = optimizer_of(model)
    train(model, optimizer, 2)
    dcp.save({"optimizer": optimizer}, checkpoint_id=str(tmp_path / "checkpoint"))
    other = optimizer_of(copy.deepcopy(model))
    with pytest.warns(UserWarning, match=r"lacks states .* of '0\.weight', .*checkpoint\.state_dict"):
        dcp.load({"optimizer": other}, checkpoint_id=str(tmp_path / "checkpoint"))
    train(model, optimizer, 1)
    dcp.load({"optimizer": optimizer}, checkpoint_id=str(tmp_path / "checkpoint"))
    assert optimizer.state[model[0].weight]["momentum.time"] == 2


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
def test_a_parameter_that_was_always_frozen_is_no_reason_for_a_warning() -> None:
    model = model_of()
    model[0].requires_grad_(False)
    optimizer = optimizer_of(model)
    train(model, optimizer, 2)
    twin = copy.deepcopy(model)
    set_optimizer_state_dict(twin, optimizer_of(twin), get_optimizer_state_dict(model, optimizer))


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
def test_a_first_state_is_made_without_changing_weights() -> None:
    model = model_of()
    before = [it.detach().clone() for it in model.parameters()]
    optimizer = optimizer_of(model)
    get_optimizer_state_dict(model, optimizer)
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))
    assert optimizer.param_groups[0]["lr"] == 0.01


ADAM_CONFIG = AdamWConfig(weight_decay=0.1)


class Before(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Linear(3, 3, dtype=torch.float64)
        self.value = nn.Linear(3, 3, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.value(torch.tanh(self.key(x)))


class After(Before):
    """The same, with its lines in another order."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.value = nn.Linear(3, 3, dtype=torch.float64)
        self.key = nn.Linear(3, 3, dtype=torch.float64)


def train_both(model: nn.Module, optimizer: Any, first: int, count: int) -> None:
    for step in range(first, first + count):
        optimizer.zero_grad()
        x = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3).roll(step)
        (model(x) - 0.3).square().sum().backward()
        optimizer.step()


def resumed_weights(folder: Path, make: Any, files: str) -> tuple[nn.Module, nn.Module]:
    """The model that trained on, and the one with other source that was resumed half way: `files` are those of torch,
    one of them a record, or both."""
    seed_param_ids(1)
    torch.manual_seed(1)
    model = Before()
    optimizer = make(model)
    train_both(model, optimizer, 0, 3)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "half.pt")
    save(model, folder / "half.safetensors")
    if files == "records":
        save(optimizer, folder / "optimizer.safetensors")
    train_both(model, optimizer, 3, 3)
    seed_param_ids(1)  # as a new process of the same program does
    other = After()
    saved = torch.load(folder / "half.pt", weights_only=True)
    if files == "torch":
        other.load_state_dict(saved["model"])
    else:
        load(other, folder / "half.safetensors")
    resumed = make(other)
    if files == "records":
        load(resumed, folder / "optimizer.safetensors")
    else:
        resumed.load_state_dict(saved["optimizer"])
    train_both(other, resumed, 3, 3)
    return model, other


@pytest.mark.parametrize("files", ["torch", "a record of the model", "records"])
def test_the_state_follows(tmp_path: Path, files: str) -> None:
    model, other = resumed_weights(tmp_path, lambda it: optimizer_of(it, ADAM_CONFIG), files)
    assert_equal_weights(other.key, model.key)
    assert_equal_weights(other.value, model.value)


def test_the_index_of_torch_swaps_the_states_without_a_word(tmp_path: Path) -> None:
    model, other = resumed_weights(tmp_path, theirs_of, "torch")
    assert not torch.allclose(other.key.weight, model.key.weight, rtol=1e-3)
