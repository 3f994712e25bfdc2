"""Everything that has a state, with what shows it: for the tests of saving and loading."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

import burnlike as bl
from burnlike import interop, optim
from burnlike.record import Record
from burnlike.train import TrainingState

X = torch.linspace(-1, 1, 15).reshape(5, 3)


def model_of(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


class Case:
    """Something with a state that `go` advances, and shows what it did.

    Attributes:
        it: what is saved.
        options: what a load of it is told.
    """

    it: Any
    options: dict[str, Any]

    def __init__(self, seed: int) -> None:
        self.options = {}
        self.make(seed)

    def make(self, seed: int) -> None:
        raise NotImplementedError

    def go(self) -> Any:
        raise NotImplementedError


class OfModule(Case):
    def make(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.it = bl.nn.LinearConfig(d_input=3, d_output=2).init()

    def go(self) -> Any:
        return self.it(X).tolist()


class OfPlainModule(OfModule):
    def make(self, seed: int) -> None:
        self.it = model_of(seed)


class OfAdaptor(Case):
    config: Any = optim.AdamWConfig()

    def make(self, seed: int) -> None:
        self.model = model_of(1)
        bl.module.seed_param_ids(1)
        self.it = self.config.init()
        self.options = {"module": self.model}

    def closure(self, module: nn.Module) -> Any:
        loss = module(X).square().sum()
        loss.backward()
        return loss, optim.GradientsParams.from_module(module)

    def go(self) -> Any:
        self.it.step(0.1, self.model, self.closure(self.model)[1])
        return [it.tolist() for it in self.model.parameters()]


class OfLbfgs(OfAdaptor):
    config: Any = optim.LbfgsConfig(max_iter=2)

    def go(self) -> Any:
        self.it.step(0.1, self.model, self.closure)
        return [it.tolist() for it in self.model.parameters()]


class OfScheduler(Case):
    config: Any = optim.CosineAnnealingConfig(initial_lr=0.1, num_iters=20)

    def make(self, seed: int) -> None:
        self.it = self.config.init()

    def go(self) -> Any:
        return [self.it.step() for _ in range(3)]


class OfModuleLrScheduler(OfScheduler):
    config = optim.ModuleLrSchedulerConfig(
        base=optim.CosineAnnealingConfig(initial_lr=0.1, num_iters=20),
        groups=(
            optim.LrGroupConfig(
                params=bl.ParamGroup.from_regex("bias"),
                scheduler=optim.ExponentialLrConfig(initial_lr=0.1, gamma=0.9),
            ),
        ),
    )

    def go(self) -> Any:
        return [(it.base, it.rates) for it in (self.it.step() for _ in range(3))]


class OfTorch(Case):
    """One of torch's own optimizers: `named` has the names of parameters, the others only their places."""

    named = True

    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.model.named_parameters(), lr=0.1, amsgrad=True)

    def make(self, seed: int) -> None:
        self.model = model_of(1)
        self.it = self.optimizer()

    def closure(self) -> Any:
        self.it.zero_grad()
        loss = self.model(X).square().sum()
        loss.backward()
        return loss

    def go(self) -> Any:
        self.it.step(self.closure)
        return [it.tolist() for it in self.model.parameters()]


class OfTorchByPlace(OfTorch):
    def optimizer(self) -> torch.optim.Optimizer:
        groups = [{"params": [*self.model[0].parameters()], "lr": 0.02}, {"params": [*self.model[2].parameters()]}]
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9)


class OfTorchLbfgs(OfTorch):
    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(self.model.parameters(), lr=0.1, max_iter=3)


class OfTorchOptimizer(OfTorch):
    def optimizer(self) -> torch.optim.Optimizer:
        return interop.TorchOptimizer(self.model, optim.AdamWConfig(), lr=0.1)


class OfTorchLbfgsOptimizer(OfTorch):
    def optimizer(self) -> torch.optim.Optimizer:
        return interop.TorchOptimizer(self.model, optim.LbfgsConfig(max_iter=2), lr=0.1)


S = torch.optim.lr_scheduler
TORCH_SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "StepLR": lambda it: S.StepLR(it, 2),
    "MultiStepLR": lambda it: S.MultiStepLR(it, [2, 5, 5]),
    "OneCycleLR": lambda it: S.OneCycleLR(it, max_lr=0.5, total_steps=50),
    "WarmRestarts": lambda it: S.CosineAnnealingWarmRestarts(it, 4),
    "Sequential": lambda it: S.SequentialLR(it, [S.ConstantLR(it, 0.5, 2), S.ExponentialLR(it, 0.9)], [2]),
    "LambdaLR": lambda it: S.LambdaLR(it, lambda step: 1 / (1 + step)),
}


class OfTorchScheduler(Case):
    name = "StepLR"

    def make(self, seed: int) -> None:
        self.optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
        self.it = TORCH_SCHEDULERS[self.name](self.optimizer)

    def go(self) -> Any:
        found = []
        for _ in range(3):
            self.optimizer.step()
            self.it.step()
            found.append((self.it.last_epoch, self.it.get_last_lr()))
        return found


class OfScaler(Case):
    def make(self, seed: int) -> None:
        self.it = torch.amp.GradScaler("cpu", init_scale=8.0 * seed, growth_interval=2)
        self.it.scale(torch.ones(1))

    def go(self) -> Any:
        self.it.update(self.it.get_scale() * 2)
        return self.it.get_scale()


class OfGenerator(Case):
    def make(self, seed: int) -> None:
        self.it = torch.Generator().manual_seed(seed)

    def go(self) -> Any:
        return torch.rand(3, generator=self.it).tolist()


class OfRandom(Case):
    def make(self, seed: int) -> None:
        self.it = random.Random(seed)

    def go(self) -> Any:
        return [self.it.gauss(), self.it.random()]


class OfNumpy(Case):
    def make(self, seed: int) -> None:
        self.it = np.random.default_rng(seed)

    def go(self) -> Any:
        return self.it.standard_normal(3).tolist()


class Averages:
    """A user's own, with Burn's two methods."""

    def __init__(self, start: float) -> None:
        self.mean, self.count = torch.full((2,), start), 0

    def into_record(self) -> Record:
        return Record({"mean": self.mean.clone()}, {"count": self.count})

    def load_record(self, record: Record) -> "Averages":
        self.mean, self.count = record.tensors["mean"], record.values["count"]
        return self


class OfOwn(Case):
    def make(self, seed: int) -> None:
        self.it = Averages(seed)

    def go(self) -> Any:
        self.it.count += 1
        self.it.mean = self.it.mean + self.it.count
        return self.it.count, self.it.mean.tolist()


class OfTraining(Case):
    """Several of the above as one."""

    def make(self, seed: int) -> None:
        self.model = model_of(seed)
        self.parts: dict[str, Any] = {
            name: CASES[name](seed) for name in ("own", "scheduler", "torch", "torch scheduler")
        }
        self.adaptor = optim.AdamWConfig().init()
        self.counters = {"step": 0}
        others = {name.replace(" ", "_"): part.it for name, part in self.parts.items()}
        self.it = TrainingState(
            model=self.model,
            optimizer=self.adaptor,
            torch_model=self.parts["torch"].model,
            counters=self.counters,
            **others,
        )

    def go(self) -> Any:
        self.model(X).square().sum().backward()
        self.adaptor.step(0.1, self.model, optim.GradientsParams.from_module(self.model))
        self.counters["step"] += 1
        own = [it.tolist() for it in self.model.parameters()]
        return [own, {**self.counters}, torch.rand(2).tolist(), *(it.go() for it in self.parts.values())]


CASES: dict[str, Any] = {
    "module": OfModule,
    "plain module": OfPlainModule,
    "adaptor": OfAdaptor,
    "lbfgs": OfLbfgs,
    "scheduler": OfScheduler,
    "module scheduler": OfModuleLrScheduler,
    "torch": OfTorch,
    "torch by place": OfTorchByPlace,
    "torch lbfgs": OfTorchLbfgs,
    "TorchOptimizer": OfTorchOptimizer,
    "TorchLbfgs": OfTorchLbfgsOptimizer,
    **{f"torch {name}": type(name, (OfTorchScheduler,), {"name": name}) for name in TORCH_SCHEDULERS},
    "torch scheduler": OfTorchScheduler,
    "scaler": OfScaler,
    "generator": OfGenerator,
    "random": OfRandom,
    "numpy": OfNumpy,
    "own": OfOwn,
    "training": OfTraining,
}
