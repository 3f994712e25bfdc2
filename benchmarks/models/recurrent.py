"""A step of training (forward, loss, backward) of language models of `nn.LSTM`, fused beside itself.

Two layers of 256 over 32 x 64 tokens, and of 128 over 8 x 32, with dropout, in float32, with the whole model in
bfloat16, and within autocast (not on CPUs without products of bfloat16, where the stock model fails).
The note has the largest difference of a gradient, relative to the largest value of that.
"""

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks._harness import Comparison, compare, main
from burnlike.interop import fuse
from burnlike.models import LstmLmConfig
from burnlike.ops import half_products

from .families import largest_difference
from .torch_lstm import LstmLm

BAR = 1.15
SIZES = {"32 x 64 x 256": (32, 64, 256), "8 x 32 x 128": (8, 32, 128)}
KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "autocast": torch.float32}
VOCAB = 1000
NAMES = [
    f"{size}, {kind}"
    for size in SIZES
    for kind in KINDS
    if kind != "autocast" or torch.bfloat16 not in half_products.SLOW
]


def _step(model: nn.Module, tokens: Tensor, autocast: bool) -> Callable[[], None]:
    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        model.zero_grad(set_to_none=True)
        loss.backward()

    return step


def measure(name: str, repeats: int) -> Comparison:
    """One size, in one dtype."""
    size, kind = name.split(", ")
    batch, length, width = SIZES[size]
    torch.manual_seed(0)
    stock = LstmLm(LstmLmConfig(vocab_size=VOCAB, d_model=width, d_hidden=width)).to(KINDS[kind])
    fused = copy.deepcopy(stock)
    fuse(fused)
    tokens = torch.randint(VOCAB, (batch, length + 1))
    ours, theirs = (_step(it, tokens, kind == "autocast") for it in (fused, stock))
    ours()
    theirs()
    note = f"gradients differ by {largest_difference(fused, stock):.1e}"
    return compare(name, ours, theirs, theirs_name="stock", bar=BAR, repeats=repeats, note=note)


def run(repeats: int, names: list[str] | None = None) -> list[Comparison]:
    """Measure all, or some by name."""
    return [measure(name, repeats) for name in NAMES if not names or name in names]


if __name__ == "__main__":
    main(__doc__ or "", run, names=NAMES)
