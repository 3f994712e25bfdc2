"""Resumable: torch's loaders that go on in the middle, in loops of others."""

import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)

import burnlike as bl
from burnlike.data import Resumable
from burnlike.errors import ArgumentError, BurnlikeError

STEPS = 33
"""Of three epochs of `wrapped()`."""


class Noisy(Dataset[Any]):
    """Items with noise of every global generator, as augmentation has."""

    def __len__(self) -> int:
        return 41

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        noise = torch.randn(1) + random.random() + numpy.random.rand()
        return {"x": index + noise.float(), "labels": torch.tensor([index % 3.0])}


def wrapped(num_workers: int = 0, **options: Any) -> Any:
    loader = DataLoader(Noisy(), **{"batch_size": 4, "shuffle": True, "num_workers": num_workers, **options})
    return Resumable(loader, seed=5)


def epochs(loader: Any, count: int = 3) -> list[list[float]]:
    return [batch["x"].flatten().tolist() for _ in range(loader.epoch, count) for batch in loader]


@pytest.mark.parametrize("steps", [0, 1, 10, 11, 17, 32])
def test_a_loop_that_stops_anywhere_goes_on_with_the_same_batches(steps: int) -> None:
    whole, first = epochs(wrapped()), wrapped()
    seen = [batch["x"].flatten().tolist() for _, batch in zip(range(steps), forever(first), strict=False)]
    again = wrapped(num_workers=2 if steps == 17 else 0)
    again.load_state_dict(first.state_dict())
    assert seen + epochs(again) == whole
    assert (again.epoch, again.position) == (3, 0)


def forever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_an_epoch_is_that_of_torch(shuffle: bool, drop_last: bool) -> None:
    torchs = DataLoader([*range(10)], batch_size=3, shuffle=shuffle, drop_last=drop_last, collate_fn=sorted)
    loader = Resumable(torchs)
    batches, expected = [*loader], [*torchs]
    assert len(loader) == len(expected)
    assert list(map(len, batches)) == list(map(len, expected))
    assert len({it for batch in batches for it in batch}) == sum(map(len, expected))
    assert shuffle or batches == expected


def test_processes_divide_the_batches_of_one() -> None:
    whole = [*wrapped()]
    ranks = [Resumable(DataLoader(Noisy(), 2, shuffle=True), seed=5, rank=it, world_size=2) for it in range(2)]
    shares = [[*it] for it in ranks]
    assert [it.is_padding for it in ranks] == [True, False]  # 41 items: the last batch has one
    for joint, first, second in [*zip(whole, *shares, strict=True)][:-1]:
        assert torch.equal(joint["labels"], torch.cat([first["labels"], second["labels"]]))


def test_a_learner_counts_no_batch_of_another_process() -> None:
    data = torch.utils.data.TensorDataset(torch.ones(3, 1))
    found = []
    for rank in range(2):
        loader = Resumable(DataLoader(data, batch_size=1), rank=rank, world_size=2)
        model = torch.nn.Linear(1, 1)
        learner = bl.train.Learner(model, torch.optim.SGD(model.parameters(), 0.0), loss=lambda of, it: of(it[0]).sum())
        sizes: list[float] = []
        learner.window.add = lambda output, sizes=sizes: sizes.append(output.size)  # pyright: ignore
        with pytest.raises(bl.errors.TrainingError, match="no target counted"):
            learner.fit(loader, renderer=bl.train.PlainRenderer(io.StringIO()))
        found.append(sizes)
    assert sorted(found) == [[1, 0], [1, 1]]


def test_burnlikes_loader_and_a_learner_take_it_as_it_is() -> None:
    inner = bl.data.DataLoader(bl.data.TensorDataset(torch.arange(10)), batch_size=3, seed=1)
    loader = bl.data.Resumable(inner)
    assert loader.loader is inner
    next(iter(loader))
    assert loader.state_dict() == inner.state_dict()
    assert (len(loader), loader.batch_size, len(loader.dataset), loader.position) == (4, 3, 10, 1)


class Lines(IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


class OwnGenerator(Noisy):
    def __init__(self) -> None:
        self.random = numpy.random.default_rng(1)


DATA = [*range(10)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataLoader(Lines()), "the iterable data set Lines"),
        (lambda: DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 10, 10)), "the sampler WeightedRandomSampler"),
        (lambda: DataLoader(DATA, sampler=DistributedSampler(DATA, 2, 0)), r"DistributedSampler.*rank, world_size"),
        (lambda: DataLoader(DATA, sampler=RandomSampler(DATA, replacement=True)), "replacement"),
        (lambda: DataLoader(DATA, sampler=RandomSampler(DATA, num_samples=3)), "num_samples"),
        (lambda: DataLoader(DATA, sampler=SequentialSampler(range(3))), "a SequentialSampler of 3 items beside 10"),
        (lambda: DataLoader(DATA, batch_sampler=Sampler(SequentialSampler(DATA), 2, True)), r"batch_sampler .*Sampler"),
        (lambda: DataLoader(DATA, batch_size=None), "batch_sampler of its own"),
        (lambda: DataLoader(DATA, num_workers=1, worker_init_fn=print), "worker_init_fn"),
        (lambda: DataLoader(OwnGenerator()), r"generator of its own \(OwnGenerator.random\)"),
        (lambda: DATA, "expected burnlike's DataLoader or torch.utils.data.DataLoader, got list"),
    ],
)
def test_what_cannot_be_proven_is_refused_by_name(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Resumable(make())


class Sampler(BatchSampler):
    pass


def test_a_position_of_other_batches_is_refused() -> None:
    state = wrapped().state_dict()
    with pytest.raises(BurnlikeError, match="other batches"):
        wrapped(batch_size=5).load_state_dict(state)
    with pytest.raises(BurnlikeError, match="other batches: shuffle was True, is False now"):
        wrapped(shuffle=False).load_state_dict(state)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_lightning_goes_on_with_the_same_batches(tmp_path: Path) -> None:
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.seen = layer(), []

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            self.seen.append(batch["x"].flatten().tolist())
            return (self.layer(batch["x"]) - batch["labels"]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-4)

    def fit(loader: Any, checkpoint: Path | None = None, steps: int = -1) -> Model:
        saves = ModelCheckpoint(dirpath=tmp_path, every_n_train_steps=7, save_top_k=-1, filename="{step}")
        quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        trainer = lightning.Trainer(
            max_epochs=3, max_steps=steps, accelerator="cpu", callbacks=[saves], default_root_dir=tmp_path, **quiet
        )
        trainer.fit(model := Model(), loader, ckpt_path=checkpoint)
        return model

    whole = fit(wrapped())
    for step, workers in ((7, 2), (14, 0)):  # in the middle of the first epoch and of the second
        rest = fit(wrapped(workers), tmp_path / f"step={step}.ckpt")
        assert rest.seen == whole.seen[step:]
        assert torch.equal(rest.layer.weight, whole.layer.weight)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trainer_of_transformers_goes_on_with_the_same_batches(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.seen = layer(), []

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            self.seen.append(x.flatten().tolist())
            return {"loss": (self.layer(x) - labels).square().mean()}

    class WithLoader(Trainer):
        loader: Any

        def get_train_dataloader(self) -> Any:
            return self.loader

    def train(loader: Any, checkpoint: Path | None = None) -> Model:
        arguments = TrainingArguments(
            str(tmp_path), num_train_epochs=3, save_steps=7, use_cpu=True, report_to=[], learning_rate=1e-4, optim="sgd"
        )
        trainer = WithLoader(model := Model(), arguments, train_dataset=Noisy())
        trainer.loader = loader
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        return model

    whole = train(wrapped())
    for step, workers in ((7, 2), (14, 0)):
        rest = train(wrapped(workers), tmp_path / f"checkpoint-{step}")
        assert rest.seen == whole.seen[step:]
        assert torch.equal(rest.layer.weight, whole.layer.weight)


def layer() -> torch.nn.Module:
    made = torch.nn.Linear(1, 1)
    torch.nn.init.zeros_(made.weight)
    torch.nn.init.zeros_(made.bias)
    return made
