"""Update rules written plainly, as their sources print them: what those of the package are compared with."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class PlainRule(ABC):
    """Looks like one of torch's optimizers, and computes by `formula`."""

    def __init__(self, parameters: Iterable[Tensor], lr: float, **options: Any) -> None:
        self.parameters = list(parameters)
        self.states: list[dict[str, Any]] = [{} for _ in self.parameters]
        self.lr, self.options, self.time = lr, options, 0

    @torch.no_grad()
    def step(self) -> None:
        self.time += 1
        for parameter, state in zip(self.parameters, self.states, strict=True):
            assert parameter.grad is not None
            parameter.copy_(self.formula(parameter.clone(), parameter.grad, state, self.time, **self.options))

    @abstractmethod
    def formula(self, p: Tensor, g: Tensor, state: dict[str, Any], t: int, **options: Any) -> Tensor:
        """The next values of p."""


class PlainAdan(PlainRule):
    """Burn's form of Xie et al. 2022, algorithm 1."""

    def formula(
        self,
        p: Tensor,
        g: Tensor,
        state: dict[str, Any],
        t: int,
        *,
        beta_1: float = 0.98,
        beta_2: float = 0.92,
        beta_3: float = 0.99,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        no_prox: bool = False,
    ) -> Tensor:
        d = g - state.get("g", g)
        m = beta_1 * state.get("m", 0) + (1 - beta_1) * g
        v = beta_2 * state.get("v", 0) + (1 - beta_2) * d
        n = beta_3 * state.get("n", 0) + (1 - beta_3) * (g + beta_2 * d) ** 2
        state.update(g=g.clone(), m=m, v=v, n=n)
        root = torch.sqrt(n) / math.sqrt(1 - beta_3**t) + epsilon
        u = (m / (1 - beta_1**t) + beta_2 * v / (1 - beta_2**t)) / root
        if no_prox:
            return p * (1 - self.lr * weight_decay) - self.lr * u
        return (p - self.lr * u) / (1 + self.lr * weight_decay)


class PlainLamb(PlainRule):
    """You et al. 2020, algorithm 2."""

    def formula(
        self,
        p: Tensor,
        g: Tensor,
        state: dict[str, Any],
        t: int,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: float = 0.0,
        use_trust_ratio: bool = True,
    ) -> Tensor:
        m = beta_1 * state.get("m", 0) + (1 - beta_1) * g
        v = beta_2 * state.get("v", 0) + (1 - beta_2) * g**2
        state.update(m=m, v=v)
        u = (m / (1 - beta_1**t)) / (torch.sqrt(v / (1 - beta_2**t)) + epsilon) + weight_decay * p
        size, length = math.sqrt((p**2).sum().item()), math.sqrt((u**2).sum().item())
        ratio = size / length if use_trust_ratio and size > 0 and length > 0 else 1.0
        return p - self.lr * ratio * u


class PlainAdafactor(PlainRule):
    """Shazeer & Stern 2018, algorithms 4 and 5, with the options of Burn."""

    def formula(
        self,
        p: Tensor,
        g: Tensor,
        state: dict[str, Any],
        t: int,
        *,
        epsilon_1: float = 1e-30,
        epsilon_2: float = 1e-3,
        clip_threshold: float = 1.0,
        decay_rate: float = -0.8,
        relative_step: bool = True,
        scale_parameter: bool = True,
        weight_decay: float = 0.0,
    ) -> Tensor:
        def rms(x: Tensor) -> float:
            return math.sqrt((x**2).mean().item())

        weight = t**decay_rate
        square = g**2 + epsilon_1
        if p.dim() < 2:
            state["v"] = (1 - weight) * state.get("v", 0) + weight * square
            u = g / torch.sqrt(state["v"])
        else:
            state["r"] = (1 - weight) * state.get("r", 0) + weight * square.mean(-1)
            state["c"] = (1 - weight) * state.get("c", 0) + weight * square.mean(-2)
            r, c = state["r"], state["c"]
            u = g / torch.sqrt(torch.einsum("...i,...j->...ij", r, c) / r.mean(-1)[..., None, None])
        u = u / max(1.0, rms(u) / clip_threshold)
        rate = min(self.lr, 1 / math.sqrt(t)) if relative_step else self.lr
        scale = max(epsilon_2, rms(p)) if scale_parameter else 1.0
        return p * (1 - self.lr * weight_decay) - rate * scale * u


class PlainScheduleFreeAdamW(PlainRule):
    """Defazio et al. 2024, equations of section 3, with x, y and z written out; the parameter is y."""

    def formula(
        self,
        p: Tensor,
        g: Tensor,
        state: dict[str, Any],
        t: int,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        warmup_steps: int = 0,
        r: float = 0.0,
        weight_lr_power: float = 2.0,
    ) -> Tensor:
        x, z = state.get("x", p), state.get("z", p)
        y = (1 - beta_1) * z + beta_1 * x  # not what came: so that an error would stay
        rate = self.lr * (min(1.0, t / warmup_steps) if warmup_steps else 1.0)
        v = beta_2 * state.get("v", 0) + (1 - beta_2) * g**2
        z = z - rate * (g / (torch.sqrt(v / (1 - beta_2**t)) + epsilon) + weight_decay * y)
        largest = max(state.get("largest", 0.0), rate)
        weight = t**r * largest**weight_lr_power
        total = state.get("total", 0.0) + weight
        x = (1 - weight / total) * x + weight / total * z
        state.update(x=x, z=z, v=v, largest=largest, total=total)
        return (1 - beta_1) * z + beta_1 * x
