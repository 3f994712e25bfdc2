"""A training that goes on in new objects, or from a directory of Burn's Learner, ends as one that was not stopped."""

import copy
import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader as TorchLoader, Dataset, TensorDataset

import burnlike as bl
from burnlike.data import DataLoader, InMemDataset
from burnlike.errors import RecordIOError, RecordMismatchError
from burnlike.module import params, seed_param_ids
from burnlike.optim import AdamWConfig, ClipByGlobalNorm, CosineAnnealingConfig, GradientsParams, OptimizerAdaptor
from burnlike.optim.schedules.lr_scheduler import LrScheduler
from burnlike.record import Record, SafetensorsRecorder
from burnlike.train import (
    BestMetricConfig,
    Callback,
    EarlyStoppingConfig,
    Ema,
    EmaConfig,
    Interrupted,
    Interrupter,
    Learner,
    PlainRenderer,
    StepOutput,
    TrainingConfig,
    TrainingState,
)
from burnlike.train.runs.run_dir import record_at
from tests.golden.run_model import Net, Sizes

X = torch.randn(22, 4, generator=torch.Generator().manual_seed(1))
Y = X.sum(1, keepdim=True).sin()


class Jittered(Dataset[tuple[Tensor, Tensor]]):
    """Items that draw from three generators, as augmentation does."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        noise = 0.01 * torch.randn(4) + 0.01 * random.random() + 0.01 * float(numpy.random.rand())
        return X[index] + noise, Y[index]


class Stack:
    """Pairs of stacked tensors."""

    def batch(self, items: list[int], device: torch.device) -> tuple[Tensor, Tensor]:
        return X[items].to(device), Y[items].to(device)


def ours() -> Any:
    return DataLoader(InMemDataset(list(range(len(X)))), Stack(), batch_size=4, seed=3)


def torchs() -> Any:
    return TorchLoader(TensorDataset(X, Y), batch_size=4, shuffle=True)


def torchs_with_augmentation() -> Any:
    return TorchLoader(Jittered(), batch_size=4, shuffle=True)


def torchs_with_workers() -> Any:
    return TorchLoader(Jittered(), batch_size=4, shuffle=True, num_workers=2)


def torchs_with_a_generator() -> Any:
    return TorchLoader(TensorDataset(X, Y), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(2))


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> StepOutput:
    predictions = model(batch[0])
    return StepOutput(functional.mse_loss(predictions, batch[1]), len(batch[0]), predictions.detach(), batch[1])


def network() -> nn.Module:
    torch.manual_seed(5)
    seed_param_ids(5)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))


def with_burnlikes_optimizer(**options: Any) -> Learner[Any]:
    optimizer = AdamWConfig(grad_clipping=ClipByGlobalNorm(threshold=0.5)).init()
    return Learner(network(), optimizer, CosineAnnealingConfig(initial_lr=0.05, num_iters=30).init(), **options)


def with_torchs_optimizer(**options: Any) -> Learner[Any]:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
    return Learner(model, optimizer, schedule, grad_clipping=ClipByGlobalNorm(threshold=0.5), **options)


class Counting(Callback):
    """Keeps a number of its own."""

    def __init__(self) -> None:
        self.steps = 0

    def on_step_end(self, learner: Learner[Any]) -> None:
        self.steps += 1

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]


class StopsAt(Callback):
    """Stops after a step, as a signal does."""

    def __init__(self, step: int | None, interrupter: Interrupter) -> None:
        self.step = step
        self.interrupter = interrupter

    def on_step_end(self, learner: Learner[Any]) -> None:
        if learner.step == self.step:
            self.interrupter.stop()


CASES: dict[str, tuple[Callable[..., Learner[Any]], Callable[[], Any], dict[str, Any], dict[str, Any]]] = {
    "burnlike": (with_burnlikes_optimizer, ours, {}, {}),
    "torch": (with_torchs_optimizer, torchs, {}, {}),
    "augmentation": (with_torchs_optimizer, torchs_with_augmentation, {}, {}),
    "generator": (with_torchs_optimizer, torchs_with_a_generator, {}, {}),
    "workers": (with_torchs_optimizer, torchs_with_workers, {}, {}),
    "burnlike-of-torchs-loader": (with_burnlikes_optimizer, torchs, {}, {}),
    "accumulation": (with_burnlikes_optimizer, ours, {"accumulation_steps": 2}, {}),
    "accumulation-torch": (with_torchs_optimizer, torchs, {"accumulation_steps": 4}, {}),
    "ema": (with_burnlikes_optimizer, ours, {"accumulation_steps": 2}, {"ema": EmaConfig(decay=0.9)}),
    "ema-torch": (with_torchs_optimizer, torchs, {}, {"ema": EmaConfig(decay=0.9, warmup=False)}),
    "bfloat16": (with_torchs_optimizer, torchs, {}, {"precision": "bfloat16"}),
    "float16": (with_burnlikes_optimizer, ours, {}, {"precision": "float16"}),
    "float16-torch": (with_torchs_optimizer, torchs, {"accumulation_steps": 2}, {"precision": "float16"}),
    "best": (
        *(with_torchs_optimizer, torchs),
        {"keep_best": BestMetricConfig(), "early_stopping": EarlyStoppingConfig(n_epochs=2, min_delta=0.2)},
        {},
    ),
}
EPOCHS = 3


def fit(case: str, directory: Path, stop: int | None = None) -> tuple[Learner[Any], int]:
    """Train to the end, or to the step `stop`; returns the learner and what the callback counted."""
    make, loader, training, options = CASES[case]
    torch.manual_seed(11)
    random.seed(11)
    numpy.random.seed(11)
    learner = make(loss=loss, **options)
    interrupter = Interrupter()
    counting = Counting()
    config = TrainingConfig(epochs=EPOCHS, log_every_steps=2, keep_checkpoints=2, **training)
    valid = TorchLoader(TensorDataset(X, Y), batch_size=8)
    try:
        learner.fit(
            *(loader(), valid, config),
            directory=directory,
            renderer=PlainRenderer(io.StringIO()),
            callbacks=[counting, StopsAt(stop, interrupter)],
            interrupter=interrupter,
        )
    except Interrupted:
        assert learner.step == stop
    return learner, counting.steps


def lines_of(directory: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{name: it for name, it in line.items() if name not in ("time", "items_per_s")} for line in lines]


def last_records(directory: Path) -> dict[str, dict[str, Tensor]]:
    last = max((directory / "checkpoints").glob("step-*"))
    return {file.stem: dict(SafetensorsRecorder().load(file).tensors) for file in sorted(last.glob("*.safetensors"))}


@pytest.mark.parametrize("case", CASES)
def test_a_training_that_was_stopped_ends_in_the_same_bits(case: str, tmp_path: Path) -> None:
    whole, counted = fit(case, tmp_path / "whole")
    expected, lines = last_records(tmp_path / "whole"), lines_of(tmp_path / "whole")
    names = {name for name, record in expected.items() if record}
    assert names >= {"model", "optimizer", "training"}
    assert ("ema" in names) == ("ema" in CASES[case][3])
    stops = [[1], [3], [7], [2, 4, 9]] if "workers" not in case else [[4]]
    for stopped in stops:
        place = tmp_path / "-".join(map(str, stopped))
        for step in [step for step in stopped if step < whole.step]:
            fit(case, place, stop=step)
            torch.rand(7)  # what happens in between is no part of it
        resumed, again = fit(case, place)
        assert (resumed.step, again) == (whole.step, counted)
        found = last_records(place)
        assert found.keys() == expected.keys()
        for name, record in expected.items():
            assert record.keys() == found[name].keys()
            for key, tensor in record.items():
                assert torch.equal(tensor, found[name][key]), f"{stopped}: {name}.{key}"
        assert lines_of(place) == lines


def test_another_number_of_workers_gives_the_same_order(tmp_path: Path) -> None:
    """The items are the same; what workers draw is theirs."""
    CASES["plain-with-workers"] = (
        with_torchs_optimizer,
        lambda: TorchLoader(TensorDataset(X, Y), batch_size=4, shuffle=True, num_workers=2),
        {},
        {},
    )
    try:
        whole, _ = fit("torch", tmp_path / "whole")
        fit("plain-with-workers", tmp_path / "run", stop=4)
        resumed, _ = fit("torch", tmp_path / "run")
    finally:
        del CASES["plain-with-workers"]
    for a, b in zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_the_average_is_what_is_validated(tmp_path: Path) -> None:
    learner, _ = fit("ema-torch", tmp_path / "run")
    plain = copy.deepcopy(learner.model).eval()
    assert learner.ema is not None
    averages = dict(learner.ema.into_record().tensors)
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            assert not torch.equal(parameter, averages[name])
            parameter.copy_(averages[name])
        expected = functional.mse_loss(plain(X).double(), Y.double()).item()
    found = learner.evaluate(TorchLoader(TensorDataset(X, Y), batch_size=8))["loss"]
    assert found == pytest.approx(expected, rel=1e-6)


def test_ema_is_the_average_of_the_formula() -> None:
    model = nn.Linear(2, 1, dtype=torch.float64)
    learner = Learner(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda model, batch: model(batch).square().mean(),
        ema=EmaConfig(decay=0.5),
    )
    expected = model.weight.detach().clone()
    for step in range(6):
        learner.train_step(torch.randn(3, 2, dtype=torch.float64))
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.weight.detach()
    assert learner.ema is not None
    torch.testing.assert_close(dict(learner.ema.into_record().tensors)["weight"], expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_average_of_16_bits_moves_and_is_left_by_a_validation(dtype: torch.dtype) -> None:
    model = nn.Linear(4, 4, dtype=dtype)
    ema = Ema(model, EmaConfig(decay=0.999, warmup=False))
    expected = model.weight.detach().double()
    with torch.no_grad():
        weight = model.weight.add_(0.25).clone()
    for _ in range(100):
        ema.update()
        expected = 0.999 * expected + 0.001 * weight.double()
        average = ema.into_record().tensors["weight"]
        with ema.applied():
            assert torch.equal(model.weight, average.to(dtype))
        assert torch.equal(model.weight, weight)
    torch.testing.assert_close(ema.into_record().tensors["weight"].double(), expected, rtol=1e-5, atol=1e-5)
    other = Record({name: average + 1 for name, average in ema.into_record().tensors.items()}, {"steps": 1})
    for record in (ema.into_record(), other):  # the model keeps each
        ema.load_record(record)
        ema.swap()
        assert torch.equal(model.weight, record.tensors["weight"].to(dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_the_average_is_of_the_weights_that_the_model_has_now(dtype: torch.dtype) -> None:
    model, other = nn.Linear(2, 2, dtype=dtype), nn.Linear(2, 2, dtype=dtype)
    ema = Ema(model, EmaConfig(decay=0.5, warmup=False))
    expected = (model.weight + other.weight).detach() / 2
    model.load_state_dict(other.state_dict(), assign=True)
    ema.update()
    with ema.applied():
        torch.testing.assert_close(model.weight.detach(), expected, rtol=1e-14, atol=1e-15)
    assert torch.equal(model.weight, other.weight)


GOLDEN = Path(__file__).parents[1] / "golden" / "v0.22"
PARTS = (("model", "train_run-end"), ("optim", "train_run-optim"), ("scheduler", "lr_cosine"))


def learner_directory(folder: Path) -> Path:
    """What Burn's Learner leaves: files of epoch 3, and older ones; here of files that Burn wrote."""
    checkpoint = folder / "artifacts" / "checkpoint"
    checkpoint.mkdir(parents=True)
    for kind, name in PARTS:
        shutil.copy(GOLDEN / f"{name}.bpk", checkpoint / f"{kind}-10.bpk")
    shutil.copy(GOLDEN / "train_run-start.bpk", checkpoint / "model-9.bpk")
    return checkpoint


def training() -> tuple[Net, OptimizerAdaptor, LrScheduler]:
    values = json.loads((GOLDEN / "train_run.values.json").read_text())
    schedule = CosineAnnealingConfig(initial_lr=1.0, min_lr=0.1, num_iters=4).init()
    return Net(Sizes.of(values["model"])), AdamWConfig().init(), schedule


def state_of(parts: tuple[Net, OptimizerAdaptor, LrScheduler]) -> TrainingState:
    model, optimizer, schedule = parts
    return TrainingState(model=model, optimizer=optimizer, schedule=schedule, counters={"step": 5})


@pytest.mark.parametrize("around", [False, True])
def test_a_training_goes_on_from_the_last_epoch_of_burns_learner(around: bool, tmp_path: Path) -> None:
    directory = learner_directory(tmp_path)
    parts = training()
    model, optimizer, schedule = parts
    state = state_of(parts)
    state.load(directory.parent if around else directory)
    record = bl.record.open_record(GOLDEN / "train_run-end.bpk")
    for param in params(model):
        assert param.tensor.detach().equal(record.tensors[param.path])
        assert param.id == record.ids[param.path]
    assert (
        optimizer.into_record().values["states"]
        == bl.record.open_record(GOLDEN / "train_run-optim.bpk").values["states"]
    )
    rates = json.loads((GOLDEN / "lr_cosine.values.json").read_text())["lr_after_load"]
    assert [schedule.step() for _ in rates] == pytest.approx(rates, rel=1e-12)
    assert state.parts["counters"] == {"step": 5}


def test_a_directory_for_burns_learner_has_its_files_byte_for_byte(tmp_path: Path) -> None:
    parts = training()
    state = state_of(parts)
    state.load(learner_directory(tmp_path / "burn"))
    folder = state.save_for_burn(tmp_path / "out" / "checkpoint", 10)
    assert sorted(path.name for path in folder.iterdir()) == ["model-10.bpk", "optim-10.bpk", "scheduler-10.bpk"]
    for kind, name in PARTS:
        assert (folder / f"{kind}-10.bpk").read_bytes() == (GOLDEN / f"{name}.bpk").read_bytes(), kind
    again = training()
    state_of(again).load(folder)
    for one, other in zip(params(parts[0]), params(again[0]), strict=True):
        assert one.tensor.equal(other.tensor)


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    directory = learner_directory(tmp_path)
    shutil.copy(GOLDEN / "optim_adagrad.bpk", directory / "optim-10.bpk")
    model, optimizer, schedule = parts = training()
    before = {param.path: param.tensor.detach().clone() for param in params(model)}
    with pytest.raises(RecordMismatchError):
        state_of(parts).load(directory)
    assert all(param.tensor.equal(before[param.path]) for param in params(model))
    assert not optimizer.into_record().tensors
    assert schedule.to_record() == training()[2].to_record()


def test_states_of_torchs_layers_are_refused(tmp_path: Path) -> None:
    model, optimizer = torch.nn.Linear(2, 1), AdamWConfig().init()
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step(0.1, model, GradientsParams.from_module(model))
    with pytest.raises(RecordMismatchError, match="states of torch's layers; convert the model by from_torch"):
        TrainingState(model=model, optimizer=optimizer).save_for_burn(tmp_path, 1)
    assert [*tmp_path.iterdir()] == []


def test_more_than_one_model_has_no_place(tmp_path: Path) -> None:
    model, optimizer, _ = training()
    state = TrainingState(one=model, other=torch.nn.Linear(1, 1), optimizer=optimizer)
    with pytest.raises(RecordMismatchError, match="Burn's Learner has one model, got one, other"):
        state.save_for_burn(tmp_path / "out", 1)
    assert not (tmp_path / "out").exists()


def test_the_weights_of_a_config_are_those_of_the_last_epoch(tmp_path: Path) -> None:
    directory = learner_directory(tmp_path)
    for path in (directory, directory.parent):
        assert record_at(str(path)) == str(directory / "model-10.bpk")


def test_a_directory_of_several_files_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(RecordIOError, match=r"a directory of model-10\.bpk, model-9\.bpk, .*: name one of them"):
        bl.record.open_record(learner_directory(tmp_path))


def test_it_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    model = bl.nn.LinearConfig(d_input=2, d_output=1).init()
    schedule = CosineAnnealingConfig(initial_lr=0.1, num_iters=9).init()
    optimizer = AdamWConfig().init()

    def step() -> None:
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step(schedule.step(), model, GradientsParams.from_module(model))

    state = TrainingState(model=model, optimizer=optimizer, schedule=schedule)
    step()
    state.save_for_burn(tmp_path, 1)
    step()
    expected = [it.detach().clone() for it in model.parameters()]
    state.load(tmp_path)
    step()
    assert all(map(torch.equal, expected, model.parameters()))
