"""What a Learner is given and can't train with: one message each, with where, before anything is changed."""

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

import burnlike.nn as bln
from burnlike.data import DataLoader, HuggingFaceDataset, TensorDataset, TokensConfig
from burnlike.errors import (
    AutodiffError,
    BurnlikeError,
    ConfigError,
    DataError,
    ShapeError,
    TableIndexError,
    TargetError,
)
from burnlike.optim import AdamWConfig
from burnlike.train import Callback, Classification, Learner, PlainRenderer, StepOutput, TrainingConfig

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
