"""Forward and backward pass of each ready model, in training, beside the same model in torch.nn.

The weights are the same on both sides. Names of models choose some of them: `python -m benchmarks.models.models UNet`.
"""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks._harness import Comparison, compare, main

from .sizes import SIZES, Size
from .twins import take_weights

BAR = 1.0


def pass_of(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Callable[[], None]:
    """A forward and a backward pass."""

    def one_pass() -> None:
        output = model(*inputs)
        output.backward(torch.ones_like(output))

    return one_pass


def measure(name: str, size: Size, repeats: int) -> Comparison:
    """One model."""
    torch.manual_seed(0)
    ours, theirs = size.config.init(), size.twin(size.config)
    take_weights(ours, theirs, size.names)
    inputs = size.inputs()
    with torch.no_grad():
        found, expected = ours(*inputs), theirs(*inputs)
    error = ((found - expected).abs().max() / expected.abs().max()).item()
    return compare(
        name,
        pass_of(ours, inputs),
        pass_of(theirs, inputs),
        theirs_name="torch.nn",
        bar=BAR,
        repeats=repeats,
        note="" if error < 1e-4 else f"outputs differ by {error:.1e} of the largest",
        before_ours=ours.zero_grad,
        before_theirs=theirs.zero_grad,
    )


def run(repeats: int, names: list[str] | None = None) -> list[Comparison]:
    """Measure all models, or some by name."""
    return [measure(name, size, repeats) for name, size in SIZES.items() if not names or name in names]


if __name__ == "__main__":
    main(__doc__ or "", run, names=[*SIZES])
