"""What users do in programs of several processes; each case raises where it does not hold.

python -m tests.train.distributed.habits CASE OUT
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.utils.data import DataLoader as TorchLoader

from burnlike.data import DataLoader, TensorDataset
from burnlike.errors import CheckpointError, ConfigError
from burnlike.interop import TorchOptimizer
from burnlike.optim import AdamWConfig, SgdConfig
from burnlike.optim.core.sharded import whole
from burnlike.train import (
    Callback,
    Checkpointer,
    DistributedConfig,
    Learner,
    Logger,
    StepOutput,
    TrainingConfig,
    TrainingState,
    make_parallel,
)

CPU = torch.device("cpu")
ROWS = torch.randn(32, 4, generator=torch.Generator().manual_seed(1))


class Normed(nn.Module):
    """Its running statistics differ between processes, and it defines its own step."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.linear = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.norm(x))

    def train_step(self, batch: tuple[Tensor, ...]) -> StepOutput:
        rows = batch[0]
        return StepOutput(functional.mse_loss(self(rows[:, :3]).squeeze(1), rows[:, 3]), len(rows))


def normed() -> Normed:
    torch.manual_seed(2)
    return Normed()


def loaders(parallel: Any) -> list[DataLoader[Any, Any]]:
    ranks = {"rank": parallel.rank, "world_size": parallel.world_size}
    return [DataLoader(TensorDataset(ROWS), batch_size=4, seed=seed, **ranks) for seed in (3, None)]


def statistics(strategy: str, out: Path) -> None:
    """All processes validate, and end, with the running statistics of rank 0, which are saved."""
    parallel = make_parallel(DistributedConfig(strategy=strategy), CPU)
    model = normed()
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), parallel=parallel)
    result = learner.fit(*loaders(parallel), TrainingConfig(epochs=2))
    assert result.valid_loss is not None
    first, second = parallel.gather(model.norm.running_mean)
    assert torch.equal(first, second)
    parallel.close()


def unused(strategy: str, out: Path) -> None:
    """A parameter that the loss does not depend on has a message that says what to do."""
    parallel = make_parallel(DistributedConfig(strategy=strategy), CPU)
    model = normed()
    model.unused = nn.Linear(2, 2)
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), parallel=parallel)
    with pytest.raises(ConfigError, match="every parameter that is trained must get a gradient"):
        learner.fit(loaders(parallel)[0], None, TrainingConfig(epochs=2))


def loaders_for_one(strategy: str, out: Path) -> None:
    """A loader of burnlike that was not told of the ranks would give all the same items."""
    parallel = make_parallel(DistributedConfig(strategy=strategy), CPU)
    model = normed()
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), parallel=parallel)
    alone = DataLoader(TensorDataset(ROWS), batch_size=4, seed=3)
    with pytest.raises(ConfigError, match="expected a DataLoader with world_size=2"):
        learner.fit(alone, None, TrainingConfig())
    with pytest.raises(ConfigError, match="expected a DataLoader with world_size=2"):
        learner.evaluate(alone)
    parallel.close()


class Lines(Logger):
    """A logger of a user's own."""

    title, package, extra = "Lines", "json", "none"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def open(self, run: Path | None, step: int) -> None:
        self.path.mkdir()  # fails for a second process

    def send(self, values: Mapping[str, float], line: Mapping[str, Any]) -> None:
        with (self.path / "lines").open("a") as file:
            file.write(f"{line['step']}\n")

    def close(self, ending: Any) -> None:
        (self.path / "closed").touch()


def loggers(strategy: str, out: Path) -> None:
    """Only rank 0 opens loggers."""
    parallel = make_parallel(DistributedConfig(strategy=strategy), CPU)
    model = normed()
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), parallel=parallel)
    learner.fit(loaders(parallel)[0], None, TrainingConfig(log_every_steps=1), callbacks=[Lines(out / "lines")])
    parallel.broadcast(None)
    assert (out / "lines" / "closed").exists()
    assert (out / "lines" / "lines").read_text().split() == ["1", "2", "3", "4"]
    parallel.close()


def used_optimizer(strategy: str, out: Path) -> None:
    """An optimizer that has taken steps with whole parameters has states that no shard fits."""
    parallel = make_parallel(DistributedConfig(strategy=strategy), CPU)
    model = normed()
    optimizer = torch.optim.AdamW(model.parameters())
    model.train_step((ROWS,)).loss.backward()
    optimizer.step()
    with pytest.raises(ConfigError, match="give the Learner a new one"):
        Learner(model, optimizer, parallel=parallel)
    parallel.close()


def zero_redundancy(strategy: str, out: Path) -> None:
    """An optimizer that divides its states by itself, which no checkpoint would have."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    parallel = make_parallel(DistributedConfig(strategy=strategy), CPU)
    model = normed()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.1)
    with pytest.raises(ConfigError, match=r"give the Learner the optimizer alone, and .*strategy='fsdp2'"):
        Learner(model, optimizer, parallel=parallel)
    with pytest.raises(TypeError, match="expected the module, not its parameters, as first argument, got a list"):
        ZeroRedundancyOptimizer(model.parameters(), TorchOptimizer, config=SgdConfig(), lr=0.1)
    parallel.close()


class Scaled(nn.Module):
    """Blocks of which one may have a parameter without dimensions, or parameters of two dtypes."""

    def __init__(self, scale: Tensor) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)) for _ in range(2)))
        self.blocks[1].scale = nn.Parameter(scale)

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


def undivided(strategy: str, out: Path) -> None:
    """What `fully_shard` and DTensors can't do is told by its path before the model is changed."""
    parallel = make_parallel(DistributedConfig(strategy=strategy), CPU)
    cases: list[tuple[Tensor, Any, str]] = [
        (torch.ones(()), torch.optim.SGD, r"fsdp2 can't divide 'blocks\.1\.scale', which has no dimensions"),
        (torch.ones(2).double(), torch.optim.SGD,
         r"of a Sequential together.*got 'blocks\.1\.scale' in float64 and 'blocks\.1\.0\.weight' in float32"),
    ]  # fmt: skip
    for kind in (torch.optim.Adafactor, torch.optim.Muon, torch.optim.Rprop):
        cases.append((torch.ones(2), kind, rf"torch's {kind.__name__} can't update 'blocks\.0\.0\.weight'"))
    for scale, kind, message in cases:
        model = Scaled(scale)
        trained = [it for it in model.parameters() if kind is not torch.optim.Muon or it.dim() == 2]
        with pytest.raises(ConfigError, match=message):
            Learner(model, kind(trained, lr=0.1), parallel=parallel)
        assert type(model) is Scaled
        assert all(type(it) is nn.Parameter for it in model.parameters())
    parallel.close()


def own_loop(strategy: str, out: Path) -> None:
    """A loop of one's own under `fully_shard`: all processes save a TrainingState, and go on with the same bits."""
    torch.distributed.init_process_group("gloo")

    def made() -> tuple[nn.Module, Any, TrainingState, dict[str, int]]:
        torch.manual_seed(4)
        model: Any = fully_shard(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
        optimizer, counters = TorchOptimizer(model, AdamWConfig(), lr=0.1), {"step": 0}
        return model, optimizer, TrainingState(model=model, optimizer=optimizer, counters=counters), counters

    def step(model: nn.Module, optimizer: Any, counters: dict[str, int]) -> None:
        model(ROWS).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        counters["step"] += 1

    model, optimizer, state, counters = made()
    step(model, optimizer, counters)
    with pytest.raises(
        CheckpointError, match=r"a part of 'model'.*let all processes call TrainingState\(\.\.\.\)\.save"
    ):
        Checkpointer(out / "checkpoints").save(1, state.to_records())
    assert not (out / "checkpoints").exists()
    state.save(out / "saved")
    step(model, optimizer, counters)
    again, its_optimizer, its_state, its_counters = made()
    its_state.load(out / "saved")
    assert its_counters == {"step": 1}
    step(again, its_optimizer, its_counters)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(whole(one.detach()), whole(other.detach()))
    torch.distributed.destroy_process_group()


class _Stop(Callback):
    def on_step_end(self, learner: Learner[Any]) -> None:
        if learner.step == 3:
            raise KeyboardInterrupt


def other_loaders(strategy: str, out: Path) -> None:
    """A loader of torch's that shuffles in each process by its own generator goes on in the middle of an epoch."""
    parallel = make_parallel(DistributedConfig(strategy=strategy), CPU)

    def trained(name: str, *callbacks: Callback) -> nn.Module:
        model = normed()
        torch.manual_seed(parallel.rank)
        order = torch.Generator().manual_seed(parallel.rank)
        loader = TorchLoader(torch.utils.data.TensorDataset(ROWS), batch_size=8, shuffle=True, generator=order)
        learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), parallel=parallel)
        training = TrainingConfig(epochs=2, checkpoint_every_steps=2, background_checkpoints=False)
        learner.fit(loader, None, training, directory=out / name, callbacks=callbacks)
        return model

    expected = trained("whole")
    with pytest.raises(KeyboardInterrupt):
        trained("stopped", _Stop())
    found = trained("stopped")
    assert all(torch.equal(one, other) for one, other in zip(found.parameters(), expected.parameters(), strict=True))
    parallel.close()


if __name__ == "__main__":
    case, strategy, place = sys.argv[1:]
    globals()[case](strategy, Path(place))
