"""Messages of a Learner that can't train with what it is given; optimizers of a program's own in it."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader as TorchLoader, IterableDataset

import burnlike as bl
import burnlike.nn as bln
from burnlike.data import DataLoader, HuggingFaceDataset, TensorDataset, TokensConfig
from burnlike.errors import (
    AutodiffError,
    BurnlikeError,
    ConfigError,
    DataError,
    RecordMismatchError,
    ShapeError,
    TableIndexError,
    TargetError,
)
from burnlike.optim import AdamWConfig, ClipByGlobalNorm, GradientsParams, LbfgsConfig, ModuleLearningRate, Optimizer
from burnlike.train import Callback, Classification, EmaConfig, Learner, PlainRenderer, StepOutput, TrainingConfig

ROWS = torch.randn(12, 3, generator=torch.Generator().manual_seed(2))


def mse(model: nn.Module, batch: Tensor) -> Tensor:
    return functional.mse_loss(model(batch[:, :2]).squeeze(1), batch[:, 2])


def learner(loss: Any = mse, **options: Any) -> Learner[Any]:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    return Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss, **options)


def quiet() -> PlainRenderer:
    return PlainRenderer(io.StringIO())


class Endless(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        return iter(ROWS)


def test_a_loader_without_a_length_is_told_which_option_says_it() -> None:
    of, endless = learner(), TorchLoader(Endless(), batch_size=4)
    with pytest.raises(DataError, match=r"^the data loader has no length; .* training.steps_per_epoch"):
        of.fit(endless, renderer=quiet())
    with pytest.raises(DataError, match=r"^the validation loader has no length; .* training.validation_steps"):
        of.fit([ROWS], endless, renderer=quiet())
    with pytest.raises(DataError, match=r"^the loader has no length; .* evaluate\(loader, steps=...\)"):
        of.evaluate(endless)
    assert of.step == 0
    of.fit([ROWS], endless, TrainingConfig(validation_steps=3), renderer=quiet())
    assert of.evaluate(endless, steps=3)["loss"] == pytest.approx(of.evaluate([ROWS])["loss"])


def test_an_optimizer_of_another_model_is_refused_and_one_of_more_is_not() -> None:
    model, other = nn.Linear(2, 1), nn.Linear(2, 1)
    with pytest.raises(
        ConfigError, match="optimizer: none of the parameters of this SGD is one of the model, a Linear"
    ):
        Learner(model, torch.optim.SGD(other.parameters(), lr=0.1), loss=mse)
    Learner(model, torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1), loss=mse)
    Learner(model, torch.optim.SGD([model.bias], lr=0.1), loss=mse)


def test_schedules_that_cannot_be_stepped_once_a_step_are_refused() -> None:
    model = nn.Linear(2, 1)
    optimizer, other = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
    schedules = torch.optim.lr_scheduler
    for schedule, message in (
        (schedules.ReduceLROnPlateau(optimizer), r"lr_scheduler: ReduceLROnPlateau is stepped with a metric"),
        (schedules.StepLR(other, 1), r"lr_scheduler: this StepLR is of another optimizer"),
        (schedules.SequentialLR(other, [schedules.StepLR(other, 1)] * 2, [1]), "of another optimizer"),
        (object(), "lr_scheduler: expected a schedule of burnlike"),
        (AdamWConfig(), "lr_scheduler: expected a schedule of burnlike"),
    ):
        with pytest.raises(ConfigError, match=message):
            Learner(model, optimizer, schedule, loss=mse)  # type: ignore[arg-type]
    Learner(model, optimizer, schedules.ChainedScheduler([schedules.StepLR(optimizer, 1)]), loss=mse)


class Plateau(Callback):
    """As the message says it."""

    def __init__(self, schedule: torch.optim.lr_scheduler.ReduceLROnPlateau) -> None:
        self.schedule = schedule

    def on_metrics(self, learner: Learner[Any], line: Any) -> None:
        if line["split"] == "valid":
            self.schedule.step(line["loss"])


def test_a_plateau_is_stepped_by_a_callback() -> None:
    of = learner(lambda model, batch: model.weight.sum() * 0 + 1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(of.optimizer, patience=0)  # type: ignore[arg-type]
    of.fit([ROWS], [ROWS], TrainingConfig(epochs=3), renderer=quiet(), callbacks=[Plateau(schedule)])
    assert of.optimizer.param_groups[0]["lr"] == pytest.approx(0.001)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("loss", "error", "message"),
    [
        (lambda model, batch: 3, ConfigError, "loss: expected a scalar tensor, or a StepOutput with one, got int, 3"),
        (lambda model, batch: None, ConfigError, "got NoneType, None"),
        (lambda model, batch: (mse(model, batch), batch), ConfigError, "got tuple"),
        (lambda model, batch: {"loss": mse(model, batch)}, ConfigError, "got dict"),
        (lambda model, batch: mse(model, batch).item(), ConfigError, "got float"),
        (lambda model, batch: StepOutput(3.0, 4), ConfigError, "got float, 3.0"),
        (lambda model, batch: model(batch[:, :2]), ShapeError, r"loss: expected a scalar, .* a tensor of \[12, 1\]"),
        (lambda model, batch: model(batch[:0, :2]), ShapeError, r"a tensor of \[0, 1\]"),
        (
            lambda model, batch: mse(model, batch).detach(),
            AutodiffError,
            "loss: expected one that depends on parameters",
        ),
        (lambda model, batch: (model(batch[:, :2]) > 0).sum(), AutodiffError, "got one without a graph"),
    ],
)
def test_a_loss_that_cannot_be_trained_with_is_one_message(loss: Any, error: type[Exception], message: str) -> None:
    of = learner(loss)
    before = [it.clone() for it in of.model.parameters()]
    with pytest.raises(error, match=message) as raised:
        of.fit([ROWS], renderer=quiet())
    assert isinstance(raised.value, BurnlikeError)
    if error is not AutodiffError:
        with pytest.raises(error, match=message):
            of.evaluate([ROWS])
    assert all(torch.equal(a, b) for a, b in zip(before, of.model.parameters(), strict=True))


def test_a_loss_of_one_number_is_a_scalar_whatever_its_shape() -> None:
    of, expected = learner(lambda model, batch: mse(model, batch).reshape(1, 1)), learner()
    batches = [ROWS[:5], ROWS[5:]]
    results = [it.fit(batches, batches, TrainingConfig(epochs=2), renderer=quiet()) for it in (of, expected)]
    assert results[0] == results[1]


class Words(nn.Module):
    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding, self.linear = embedding, nn.Linear(2, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.linear(self.embedding(tokens).mean(1))


@pytest.mark.parametrize(
    "make", [lambda: nn.Embedding(7, 2), lambda: bln.EmbeddingConfig(n_embedding=7, d_model=2).init()]
)
@pytest.mark.parametrize("wrong", [7, -1])
def test_tokens_out_of_range_are_said_with_step_and_range(make: Any, wrong: int) -> None:
    model = Words(make())
    of = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), task=Classification())
    good = (torch.tensor([[0, 6], [3, 4]]), torch.tensor([0, 2]))
    bad = (torch.tensor([[0, wrong], [3, 4]]), torch.tensor([0, 2]))
    said = rf"the whole numbers of the batch are {min(wrong, 0)}..{max(wrong, 4)} and 0..2"
    with pytest.raises(TableIndexError, match=rf"^step 2, epoch 1: .*{said}"):
        of.fit([good, bad], renderer=quiet())
    with pytest.raises(TableIndexError, match=rf"^validation after step 1: .*{said}"):
        of.evaluate([good, bad])


@pytest.mark.parametrize("loss", [functional.cross_entropy, None])
def test_targets_out_of_range_are_said_with_step_and_range(loss: Any) -> None:
    model = Words(nn.Embedding(7, 2))
    given: dict[str, Any] = {"task": Classification()}
    if loss is not None:
        given = {"loss": lambda model, batch: loss(model(batch[0]), batch[1])}
    of = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), **given)
    kind = TargetError if loss is None else TableIndexError
    with pytest.raises(kind, match=r"^step 1, epoch 1: .* the whole numbers of the batch are 0..6 and 0..3"):
        of.fit([(torch.tensor([[0, 6], [3, 4]]), torch.tensor([0, 3]))], renderer=quiet())


def test_other_index_errors_stay_as_they_are() -> None:
    with pytest.raises(IndexError, match=r"^list index out of range$") as raised:
        learner(lambda model, batch: [][0]).fit([ROWS], renderer=quiet())
    assert not isinstance(raised.value, BurnlikeError)


def test_a_token_that_the_model_does_not_know_is_said_with_its_place_in_the_file(tmp_path: Path) -> None:
    tokens = torch.arange(200) % 50
    tokens[[30, 170]] = 99
    tokens.to(torch.uint8).numpy().tofile(tmp_path / "t.bin")
    data = TokensConfig(path=str(tmp_path / "t.bin"), dtype="uint8", context_length=4, validation_fraction=0.2).init()
    data.expect_vocabulary(99)
    for part, place in ((data.train, 30), (data.valid, 170)):
        message = rf"t.bin: expected tokens in 0..98 \(model.vocab_size\), got 99 as token {place} of the file"
        with pytest.raises(DataError, match=message):
            list(DataLoader(part, batch_size=4))
        skipping = DataLoader(part, batch_size=100, on_bad_item="skip")
        (batch,) = skipping
        assert len(batch) == len(part) - skipping.skipped
        assert batch.max() < 50


def test_text_among_the_inputs_or_the_targets_is_one_message() -> None:
    rows = datasets.Dataset.from_dict(
        {"text": ["good", "bad"], "x": [[1.0, 2.0]] * 2, "labels": [0, 1], "name": ["a", "b"]}
    )
    model = nn.Linear(2, 2)
    of = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), task=Classification())
    for columns, message in (
        (
            ["text", "labels"],
            r"data: expected numbers as the inputs of a batch, got text such as '(good|bad)', which Linear",
        ),
        (["text", "labels", "x"], r"data: expected numbers as 'text', got text such as"),
        (
            ["x", "name"],
            r"data: expected numbers as the targets of a batch, got text such as '[ab]'; number the classes",
        ),
    ):
        with pytest.raises(DataError, match=message):
            of.fit(DataLoader(HuggingFaceDataset(rows, columns), batch_size=2), renderer=quiet())


def test_a_model_that_takes_text_gets_it() -> None:
    class Length(nn.Linear):
        def forward(self, texts: Any) -> Tensor:
            return super().forward(torch.tensor([[float(len(it)), 1.0] for it in texts]))

    model = Length(2, 2)
    of = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), task=Classification())
    assert of.fit([(("good", "bad"), torch.tensor([0, 1]))], renderer=quiet()).steps == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"training": 3}, r"training: expected a TrainingConfig, .* got 3"),
        ({"callbacks": [print]}, "callbacks: expected objects of classes derived from Callback, got <built-in"),
        ({"callbacks": [Callback]}, "callbacks: expected objects of classes derived from Callback, got <class"),
        ({"training": TrainingConfig(precision="bfloat16")}, r"precision: .* Learner\(\.\.\., precision='bfloat16'\)"),
        ({"training": TrainingConfig(ema=EmaConfig(decay=0.9))}, r"ema: .* Learner\(\.\.\., ema=EmaConfig\(decay=0.9"),
        ({"training": TrainingConfig(global_batch_size=8)}, "global_batch_size: .*; say accumulation_steps"),
    ],
)
def test_fit_takes_nothing_that_it_would_not_use(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        learner().fit([ROWS], renderer=quiet(), **options)


class LargestError:
    """A metric of one's own, without a state."""

    largest = 0.0

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        self.largest = max(self.largest, (predictions - targets).abs().max().item())

    def compute(self) -> float:
        return self.largest

    def reset(self) -> None:
        self.largest = 0.0


def test_metrics_of_training_batches_have_a_state() -> None:
    of = learner(metrics={"largest": LargestError()})
    with pytest.raises(ConfigError, match="train_metrics: expected largest to be an object with state_dict, load_"):
        of.fit([ROWS], training=TrainingConfig(train_metrics=True), renderer=quiet())
    assert of.step == 0


@pytest.mark.parametrize("metrics", [[LargestError()], {"largest": LargestError}, {"largest": max}])
def test_metrics_are_objects_by_name(metrics: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"^metrics: expected (metrics by their names|largest to be an object with upd)"
    ):
        learner(metrics=metrics)


class Counting(Callback):
    """Has a state."""

    def __init__(self, name: str | None = None) -> None:
        self.count = 0
        if name is not None:
            self.name = name

    def on_step_end(self, learner: Learner[Any]) -> None:
        self.count += 1

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


class Other(Counting):
    """Counts otherwise."""

    def on_step_end(self, learner: Learner[Any]) -> None:
        self.count += 100


def test_states_of_callbacks_are_found_by_name(tmp_path: Path) -> None:
    """Those of the first run come back in another order, some are gone, and others are new."""
    config = TrainingConfig(epochs=2, background_checkpoints=False)
    first: list[Callback] = [Counting(), Other(), Counting("b"), Counting("a"), Counting()]
    for place, it in enumerate(first):
        it.count = 1000 * place  # type: ignore[attr-defined]
    loader = DataLoader(TensorDataset(ROWS), batch_size=4, seed=1)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return mse(model, batch[0])

    learner(loss).fit(loader, training=config, directory=tmp_path / "run", renderer=quiet(), callbacks=first)
    second: list[Any] = [Counting("a"), Counting("new"), Callback(), Counting(), Counting(), Other(), Counting()]
    config = TrainingConfig(epochs=3, background_checkpoints=False)
    loader = DataLoader(TensorDataset(ROWS), batch_size=4, seed=1)
    learner(loss).fit(loader, training=config, directory=tmp_path / "run", renderer=quiet(), callbacks=second)
    counts = [getattr(it, "count", None) for it in second]
    assert counts == [3009, 3, None, 9, 4009, 1900, 3]


class Sign(Optimizer):
    """Steps by the sign of the mean gradient so far."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.steps = 0

    def step(self, lr: float | ModuleLearningRate, module: nn.Module, grads: GradientsParams) -> Any:
        assert isinstance(lr, float)
        self.steps += 1
        for param in bl.module.params(module, "weight"):
            grad = grads.get(param)
            if grad is not None:
                self.sums[param.path] = self.sums.get(param.path, 0) + grad
                with torch.no_grad():
                    param.tensor.sub_(lr * self.sums[param.path].sign())
        return module

    def into_record(self) -> bl.record.Record:
        return bl.record.Record({**self.sums}, values={"steps": self.steps})

    def load_record(self, record: bl.record.Record, module: nn.Module | None = None) -> "Sign":
        self.sums = {name: record.tensors[name].clone() for name in record.tensors}
        self.steps = record.values["steps"]
        return self


def model_of() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return functional.mse_loss(model(batch[0]), batch[1])


def loader() -> torch.utils.data.DataLoader[Any]:
    generator = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(
        torch.rand(24, 3, generator=generator), torch.rand(24, 1, generator=generator)
    )
    return torch.utils.data.DataLoader(data, batch_size=8)


def by_hand(steps: int) -> list[Tensor]:
    model = model_of()
    sums = [torch.zeros_like(it) for it in model.parameters()]
    batches = [*loader()]
    for step in range(steps):
        model.zero_grad()
        loss(model, batches[step % 3]).backward()
        with torch.no_grad():
            for total, parameter in zip(sums, model.parameters(), strict=True):
                total += parameter.grad
                parameter -= 0.01 * total.sign()
    return [*model.parameters()]


def test_the_learner_trains_and_resumes_with_it(tmp_path: Path) -> None:
    model = model_of()
    Learner(model, Sign(), 0.01, loss=loss).fit(loader(), training=TrainingConfig(epochs=1), directory=tmp_path)
    model, optimizer = model_of(), Sign()
    result = Learner(model, optimizer, 0.01, loss=loss).fit(
        loader(), training=TrainingConfig(epochs=2), directory=tmp_path
    )
    assert (result.steps, optimizer.steps) == (6, 6)
    torch.testing.assert_close([*model.parameters()], by_hand(6), rtol=0, atol=0)


def test_it_accumulates_clips_and_scales() -> None:
    model, optimizer = model_of(), Sign()
    learner = Learner(
        model, optimizer, 0.01, loss=loss, precision="float16", grad_clipping=ClipByGlobalNorm(threshold=0.1)
    )
    for _ in range(20):  # the first scale is too large for float16, and is halved each time
        learner.train_step(*loader())
        if optimizer.steps:
            break
    total = torch.stack([it.square().sum() for it in optimizer.sums.values()]).sum().sqrt()
    torch.testing.assert_close(total, torch.tensor(0.1))


def test_behind_torchs_interface_it_has_a_state_dict() -> None:
    model, optimizer = model_of(), Sign()
    theirs = bl.interop.TorchOptimizer(model, optimizer, lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(theirs, 100)
    batches = [*loader()]
    for step in range(4):
        if step == 2:
            saved = theirs.state_dict()
            optimizer = Sign()
            theirs = bl.interop.TorchOptimizer(model, config=optimizer, lr=0.5)
            theirs.load_state_dict(saved)
        theirs.zero_grad()
        loss(model, batches[step % 3]).backward()
        theirs.step()
        schedule.step()
    assert optimizer.steps == 4
    torch.testing.assert_close([*model.parameters()], by_hand(4), rtol=0, atol=0)


def test_what_it_can_not_be_is_said() -> None:
    model = model_of()
    with pytest.raises(ConfigError, match="is told the learning rate at each step"):
        Learner(model, Sign(), loss=loss)
    with pytest.raises(ConfigError, match="Lbfgs asks for the loss several times"):
        Learner(model, LbfgsConfig().init(), 0.1, loss=loss)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="LBFGS asks for the loss several times"):
        Learner(model, torch.optim.LBFGS(model.parameters()), loss=loss)
    with pytest.raises(ConfigError, match="TorchLbfgs asks for the loss several times"):
        Learner(model, bl.interop.TorchOptimizer(model, LbfgsConfig(), 0.1), loss=loss)


def test_its_state_has_no_form_of_torchs() -> None:
    optimizer: Any = bl.interop.TorchOptimizer(model_of(), Sign(), 0.1)
    with pytest.raises(RecordMismatchError, match="Sign: form='torch' is for optimizers with a rule"):
        optimizer.state_dict(form="torch")
