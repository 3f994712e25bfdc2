"""TrainingState: every part comes back to the last bit; what does not fit changes nothing."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from burnlike.errors import (
    ArgumentError,
    BurnlikeError,
    CheckpointError,
    RecordError,
    RecordFormatError,
    RecordIOError,
    RecordMismatchError,
)
from burnlike.module import params
from burnlike.optim import AdamWConfig, CosineAnnealingConfig, GradientsParams
from burnlike.record import Record, SafetensorsRecorder
from burnlike.train import TrainingState
from tests.train.test_learner import loader


class Training:
    """One of everything, and a step that uses all of it."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        self.critic = nn.Linear(1, 1)
        self.optimizer = AdamWConfig().init()
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=0.1)
        self.scheduler = CosineAnnealingConfig(initial_lr=0.1, num_iters=50).init()
        self.critic_scheduler = torch.optim.lr_scheduler.MultiStepLR(self.critic_optimizer, [2, 5, 5])
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        self.noise = torch.Generator().manual_seed(seed)
        self.python = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.legacy = np.random.RandomState(seed)
        self.loader = loader()
        self.counters: dict[str, Any] = {"step": 0, "best": None, "history": []}

    def state(self) -> TrainingState:
        return TrainingState(**vars(self))

    def step(self) -> list[float]:
        """Train once; everything that was drawn or computed."""
        drawn = [
            *(torch.rand(()).item(), random.random(), float(np.random.rand()), random.gauss()),
            torch.rand((), generator=self.noise).item(),
            *(self.python.gauss(), self.numpy.standard_normal(), float(self.legacy.standard_normal())),
        ]
        x, _ = next(iter(self.loader))
        output = self.critic(self.model(torch.cat([x, x], 1)))
        loss = (output - drawn[0]).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.critic_optimizer)
        lr = self.scheduler.step()
        self.optimizer.step(lr, self.model, GradientsParams.from_module(self.model))
        self.scaler.step(self.critic_optimizer)
        self.scaler.update()
        self.critic_optimizer.zero_grad()
        self.critic_scheduler.step()
        self.counters["step"] += 1
        self.counters["history"] += [lr, self.critic_optimizer.param_groups[0]["lr"]]
        numbers = [
            it for module in (self.model, self.critic) for p in module.parameters() for it in p.flatten().tolist()
        ]
        return [
            *drawn,
            loss.item(),
            self.scaler.get_scale(),
            *self.counters["history"],
            *x.flatten().tolist(),
            *numbers,
        ]


@pytest.mark.parametrize("done", [0, 3])
def test_everything_goes_on_in_the_same_bits(tmp_path: Path, done: int) -> None:
    whole = Training(1)
    for _ in range(done):
        whole.step()
    path = whole.state().save(tmp_path / "saved")
    expected = [whole.step() for _ in range(4)]
    resumed = Training(2)
    resumed.step()
    random.seed(7)
    np.random.seed(7)
    resumed.state().load(path)
    assert [resumed.step() for _ in range(4)] == expected
    assert resumed.counters == whole.counters
    assert [it.id for it in params(resumed.model)] == [it.id for it in params(whole.model)]


def test_the_files_are_safetensors_of_the_parts(tmp_path: Path) -> None:
    training = Training(1)
    training.step()
    path = training.state().save(tmp_path / "saved")
    assert sorted(it.name for it in path.iterdir()) == [
        "critic.safetensors",
        "critic_optimizer.safetensors",
        "model.safetensors",
        "optimizer.safetensors",
        "training.safetensors",
    ]
    values = SafetensorsRecorder().load(path / "training.safetensors").values
    assert values["parts"]["counters"]["step"] == 1
    assert values["parts"]["scaler"]["scale"] == 8.0
    assert [it.name for it in tmp_path.iterdir()] == ["saved"]
    with pytest.raises(CheckpointError, match="saved exists; choose another name"):
        training.state().save(path)


def snapshot(training: Training) -> str:
    state = {name: part for name, part in vars(training).items() if name in ("scheduler", "critic_scheduler", "scaler")}
    small = {
        name: part.state_dict() if hasattr(part, "state_dict") else part.to_record() for name, part in state.items()
    }
    drawn = (torch.get_rng_state().tolist(), random.getstate(), training.noise.get_state().tolist())
    tensors = [p.tolist() for module in (training.model, training.critic) for p in module.parameters()]
    optimizers = (training.optimizer.to_record().values, repr(training.critic_optimizer.state_dict()))
    return repr((small, drawn, tensors, optimizers, training.loader.state_dict(), training.counters))


def wider(training: Training) -> None:
    training.model = nn.Sequential(nn.Linear(2, 5), nn.Dropout(0.5), nn.Linear(5, 1))


def wider_critic(training: Training) -> None:
    training.critic = nn.Linear(1, 1, bias=False)
    training.critic_optimizer = torch.optim.Adam(training.critic.parameters(), lr=0.1)


def other_data(training: Training) -> None:
    training.loader = loader(n_items=10)


def other_optimizer(training: Training) -> None:
    training.critic_optimizer = torch.optim.SGD(training.critic.parameters(), lr=0.1)


def other_scheduler(training: Training) -> None:
    training.scheduler = torch.Generator()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wider, r"model\.safetensors belongs to another model"),
        (wider_critic, r"critic\.safetensors does not fit Linear"),
        (other_data, "the saved loader position is one of other data"),
        (other_optimizer, "expected the record of a SGD of torch, got .* of Adam"),
    ],
)
def test_what_does_not_fit_changes_nothing(tmp_path: Path, change: Callable[[Training], None], message: str) -> None:
    training = Training(1)
    training.step()
    path = training.state().save(tmp_path / "saved")
    other = Training(2)
    change(other)
    before = snapshot(other)
    with pytest.raises(BurnlikeError, match=message):
        other.state().load(path)
    assert snapshot(other) == before


def test_parts_that_are_missing_or_of_another_kind_are_named(tmp_path: Path) -> None:
    training = Training(1)
    path = training.state().save(tmp_path / "saved")
    parts = vars(training)
    with pytest.raises(RecordMismatchError, match="the training has no part 'noise'"):
        TrainingState(**{name: part for name, part in parts.items() if name != "noise"}).load(path)
    with pytest.raises(RecordMismatchError, match="the record has no part 'counter'; did you mean 'counters'"):
        TrainingState(**parts, counter={}).load(path)
    with pytest.raises(RecordIOError, match="other_model"):
        TrainingState(**parts, other_model=nn.Linear(1, 1)).load(path)
    other_scheduler(training)
    with pytest.raises(RecordMismatchError, match=r"'scheduler' refused its state .* saved by another kind of part"):
        training.state().load(path)
    with pytest.raises(RecordError, match=r"'step' is a int: expected a module, .* a dict of plain values"):
        TrainingState(step=3)
    with pytest.raises(RecordError, match="another name for the part 'training'"):
        TrainingState(training={})


def test_the_global_generators_can_be_left_out(tmp_path: Path) -> None:
    counters = {"step": 1}
    whole = TrainingState(counters=counters).save(tmp_path / "whole")
    bare = TrainingState(random=False, counters=counters).save(tmp_path / "bare")
    assert not SafetensorsRecorder().load(bare / "training.safetensors").tensors
    before = torch.get_rng_state()
    torch.rand(1)
    after = torch.get_rng_state()
    TrainingState(random=False, counters=counters).load(whole)
    assert torch.equal(torch.get_rng_state(), after)
    TrainingState(counters=counters).load(whole)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_state_that_needs_code_is_refused() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)

    class Rate:
        def __call__(self, step: int) -> float:
            return 1.0

        def __init__(self) -> None:
            self.made_of = object()

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, Rate())
    with pytest.raises(RecordError, match=r"'scheduler\.lr_lambdas\.0\.made_of': .* got object, which can't be"):
        TrainingState(scheduler=scheduler).to_records()


SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "lambda": lambda it: torch.optim.lr_scheduler.LambdaLR(it, lambda step: 0.9**step),
    "plateau": lambda it: torch.optim.lr_scheduler.ReduceLROnPlateau(it, patience=0),
    "one_cycle": lambda it: torch.optim.lr_scheduler.OneCycleLR(it, 1.0, total_steps=20),
    "chained": lambda it: torch.optim.lr_scheduler.SequentialLR(
        it,
        [torch.optim.lr_scheduler.ConstantLR(it, 0.5), torch.optim.lr_scheduler.ExponentialLR(it, 0.9)],
        milestones=[3],
    ),
    "cyclic": lambda it: torch.optim.lr_scheduler.CyclicLR(it, 0.1, 1.0, cycle_momentum=False),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_torchs_schedulers_go_on(tmp_path: Path, name: str) -> None:
    def made() -> dict[str, Any]:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return {"model": model, "optimizer": optimizer, "scheduler": SCHEDULERS[name](optimizer)}

    def rates(of: dict[str, Any], count: int) -> list[float]:
        found = []
        for _ in range(count):
            of["optimizer"].step()
            of["scheduler"].step(*((1.0,) if name == "plateau" else ()))
            found.append(of["optimizer"].param_groups[0]["lr"])
        return found

    whole, resumed = made(), made()
    rates(whole, 2)
    path = TrainingState(**whole).save(tmp_path / "saved")
    TrainingState(**resumed).load(path)
    assert rates(resumed, 5) == rates(whole, 5)


class Renamed(nn.Module):
    """The model of a `Training` after its layers got names, in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.tail = nn.Linear(4, 1)
        self.head = nn.Linear(2, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tail(nn.functional.dropout(self.head(x), 0.5))


def test_optimizers_follow_layers_that_were_renamed_and_moved_since(tmp_path: Path) -> None:
    def made(model: nn.Module) -> dict[str, Any]:
        return {
            "model": model,
            "optimizer": AdamWConfig().init(),
            "other_optimizer": torch.optim.Adam(model.parameters(), lr=0.1),
        }

    def step(of: dict[str, Any]) -> float:
        loss = of["model"](torch.rand(3, 2)).square().sum()
        loss.backward()
        of["other_optimizer"].step()
        of["optimizer"].step(0.1, of["model"], GradientsParams.from_module(of["model"]))
        return loss.item()

    whole, resumed = made(nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.Linear(4, 1))), made(Renamed())
    step(whole)
    path = TrainingState(**whole).save(tmp_path / "saved")
    expected = [step(whole) for _ in range(3)]
    before = [it.tolist() for it in resumed["model"].parameters()]
    with pytest.raises(RecordMismatchError, match="belongs to another model: 0 of the 4 tensors of Renamed"):
        TrainingState(**resumed).load(path)
    with pytest.raises(ArgumentError, match="remap: no module has the name 'modell'; did you mean 'model'"):
        TrainingState(**resumed).load(path, remap={"modell": []})
    assert [it.tolist() for it in resumed["model"].parameters()] == before
    TrainingState(**resumed).load(path, remap={"model": [("^0", "head"), ("^2", "tail")]})
    assert [step(resumed) for _ in range(3)] == expected
    assert resumed["optimizer"].load_report.remapped["2.bias"] == "tail.bias"


def test_a_place_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"file/saved can't be written: .*[Nn]ot a directory"):
        TrainingState(counters={}).save(tmp_path / "file" / "saved")


def test_another_version_and_other_records_are_refused_and_change_nothing() -> None:
    state = TrainingState(counters={"step": 3})
    records = state.to_records()
    values = dict(records["training"].values)
    with pytest.raises(RecordFormatError, match=r"expected version 1 of .*, got 2: another version"):
        state.load_records({"training": Record(values={**values, "version": 2})})
    with pytest.raises(RecordMismatchError, match="is no record of a training: it has no parts"):
        state.load_records({"training": Record(values={"version": 1})})
    assert state.parts["counters"] == {"step": 3}
