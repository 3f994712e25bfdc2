"""An `Optimizer` of a program's own, wherever one of burnlike or of torch is taken."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import burnlike as bl
from burnlike.errors import ConfigError, RecordMismatchError
from burnlike.optim import ClipByGlobalNorm, GradientsParams, LbfgsConfig, ModuleLearningRate, Optimizer
from burnlike.train import Learner, TrainingConfig


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


def test_its_state_has_no_form_of_torchs() -> None:
    optimizer: Any = bl.interop.TorchOptimizer(model_of(), Sign(), 0.1)
    with pytest.raises(RecordMismatchError, match="Sign: form='torch' is for optimizers with a rule"):
        optimizer.state_dict(form="torch")
