"""A training step of a model of tables (forward, cross-entropy, backward, AdamW): Linear, BatchNorm1d, ReLU, Dropout.

Ours beside the model in torch.nn with torch's fused AdamW: `fuse` and TorchOptimizer on the same model, and `Mlp` with
its optimizer. Two hidden layers of 256 over batches of 256 rows of 64 columns, and of 512 over 1024 rows of 128. Both
sides begin with the same weights; the note has the losses of the first step.
"""

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._harness import Comparison, compare, main
from burnlike.interop import TorchOptimizer, fuse
from burnlike.models import MlpConfig
from burnlike.nn import BatchNormConfig
from burnlike.optim import AdamWConfig

from .twins import take_weights

BAR, CLASSES, DROPOUT, RATE = 1.3, 10, 0.1, 1e-3
SIZES = {"256 x 64 x 256": (256, 64, 256), "1024 x 128 x 512": (1024, 128, 512)}
NAMES = [f"{size}, {side}" for size in SIZES for side in ("fuse", "Mlp")]


def table_model(columns: int, width: int) -> nn.Sequential:
    """Two hidden layers, in torch.nn."""
    layers: list[nn.Module] = []
    for size in (columns, width):
        layers += [nn.Linear(size, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(DROPOUT)]
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


def _names() -> dict[str, str]:
    names = {rf"^layers\.{number}\.": f"{4 * number}." for number in range(3)}
    return names | {rf"^norms\.{number}\.": f"{4 * number + 1}." for number in range(2)}


def step_of(model: nn.Module, x: Tensor, targets: Tensor, optimizer: torch.optim.Optimizer) -> Callable[[], Tensor]:
    """A training step, which returns its loss."""

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def measure(name: str, repeats: int) -> Comparison:
    """One size, on one of our sides."""
    size, side = name.split(", ")
    rows, columns, width = SIZES[size]
    torch.manual_seed(0)
    stock = table_model(columns, width)
    x, targets = torch.randn(rows, columns), torch.randint(CLASSES, (rows,))
    if side == "fuse":
        model: nn.Module = copy.deepcopy(stock)
        fuse(model)
    else:
        sizes = (columns, width, width, CLASSES)
        model = MlpConfig(sizes=sizes, norm=BatchNormConfig(num_features=1), dropout=DROPOUT).init()
        take_weights(model, stock, _names())
    ours = step_of(model, x, targets, TorchOptimizer(model, AdamWConfig(), lr=RATE))
    theirs = step_of(stock, x, targets, torch.optim.AdamW(stock.parameters(), lr=RATE, fused=True))
    losses: list[float] = []
    for step in (ours, theirs):
        torch.manual_seed(1)
        losses.append(step().item())
    note = f"first losses {losses[0]:.5f} and {losses[1]:.5f}"
    return compare(name, ours, theirs, theirs_name="stock", bar=BAR, repeats=4 * repeats, note=note)


def run(repeats: int, names: list[str] | None = None) -> list[Comparison]:
    """Measure all, or some by name."""
    return [measure(name, repeats) for name in NAMES if not names or name in names]


if __name__ == "__main__":
    main(__doc__ or "", run, names=NAMES)
