"""One training in three programs: torch.optim, burnlike, Burn, and back, thirty steps each."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import optim
from burnlike.interop import from_torch, register_twin, to_torch
from burnlike.module import params
from burnlike.optim import GradientsParams, load_torch_record, torch_record
from burnlike.record import load, save

from .running import SEED, ask, packed

pytestmark = pytest.mark.burn
D, STEPS, LR = 4, 30, 0.002  # square weights, of which no shape tells how a state lies


def narrow(number: float) -> float:
    """The number as Burn keeps it."""
    return torch.tensor(number, dtype=torch.float32).item()


B1, B2, EPS, DECAY = map(narrow, (0.9, 0.999, 1e-8, 1e-2))
ADAM = {"beta_1": B1, "beta_2": B2, "epsilon": EPS}
OF_RMS = {"alpha": narrow(0.99), "momentum": narrow(0.8), "centered": True}
RULES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "AdamW": (
        torch.optim.AdamW,
        {"betas": (B1, B2), "eps": EPS, "weight_decay": DECAY},
        optim.AdamWConfig(weight_decay=DECAY, **ADAM),
    ),
    "Adam": (
        torch.optim.Adam,
        {"betas": (B1, B2), "eps": EPS, "amsgrad": True},
        optim.AdamConfig(amsgrad=True, **ADAM),
    ),
    "SGD": (
        torch.optim.SGD,
        {"momentum": 0.8},
        optim.SgdConfig(momentum=optim.MomentumConfig(momentum=0.8, dampening=0.0)),
    ),
    "RMSprop": (
        torch.optim.RMSprop,
        {"eps": narrow(1e-6), **OF_RMS},
        optim.RmsPropConfig(epsilon=narrow(1e-6), **OF_RMS),
    ),
    "Adagrad": (
        torch.optim.Adagrad,
        {"eps": EPS, "lr_decay": 0.1},
        optim.AdaGradConfig(epsilon=EPS, lr_decay=0.1),
    ),
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, D)
        self.lstm = nn.LSTM(D, D, batch_first=True)
        self.gru = nn.GRU(D, D, batch_first=True)
        self.attention = nn.MultiheadAttention(D, 2, batch_first=True)
        self.norm = nn.LayerNorm(D)
        self.one, self.head = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.gru(self.lstm(self.embedding(ids))[0])[0]
        seen = self.attention(x, x, x, need_weights=False)[0]
        return self.head(self.one(self.norm(x + seen)).tanh())


class Twin(Net):
    def forward(self, ids: Tensor) -> Tensor:
        layers: Any = self
        x = layers.gru(layers.lstm(self.embedding(ids))[0])
        seen = layers.attention(x).context
        return self.head(self.one(self.norm(x + seen)).tanh())


register_twin(Net, Twin)


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(SEED)
    return torch.randint(7, (3, 5)), torch.randn(3, 5, D, dtype=torch.float64)


def trained(module: nn.Module, optimizer: Any, steps: int = STEPS) -> list[float]:
    ids, target = data()
    losses = []
    for _ in range(steps):
        loss = (module(ids) - target).square().mean()
        losses.append(loss.item())
        loss.backward()
        if isinstance(optimizer, torch.optim.Optimizer):
            optimizer.step()
            optimizer.zero_grad()
        else:
            optimizer.step(LR, module, GradientsParams.from_module(module))
    return losses


@pytest.mark.parametrize("rule", RULES)
def test_one_run_of_torch_burnlike_and_burn(rule: str, tmp_path: Path) -> None:
    made, options, config = RULES[rule]
    torch.manual_seed(SEED)
    net = Net().double()
    alone = copy.deepcopy(net)
    expected = trained(alone, made(alone.parameters(), lr=LR, **options), 4 * STEPS)

    theirs = made(net.parameters(), lr=LR, **options)
    losses = trained(net, theirs)
    twin = from_torch(net)
    ours = config.init().load_record(torch_record(theirs, net), twin)
    losses += trained(twin, ours)

    model, states = tmp_path / "model.bpk", tmp_path / "optimizer.bpk"
    save(twin, model)
    ours.save(states)
    ids, target = data()
    case = {"rule": rule, "model": str(model), "optimizer": str(states), "steps": STEPS, "lr": LR}
    (answer,) = ask("states", [{**case, "ids": packed(ids), "target": packed(target)}])
    losses += answer["losses"]

    load(twin, model)
    follower = config.init().load(states, module=twin)
    assert len(follower.load_report.by_id) == len(params(twin, "weight"))
    back = to_torch(twin)
    again = made(back.parameters(), lr=LR, **options)
    load_torch_record(again, follower.into_record(), back)
    losses += trained(back, again)
    # Bias corrections in float32 are all that differs, which grows with each step.
    for steps, tolerance in ((100, 1e-4), (4 * STEPS, 1e-2)):
        found, wanted = torch.tensor(losses[:steps]).double(), torch.tensor(expected[:steps]).double()
        torch.testing.assert_close(found, wanted, rtol=tolerance, atol=1e-8)
    for (name, one), other in zip(back.named_parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3, msg=lambda it, name=name: f"{name}: {it}")
