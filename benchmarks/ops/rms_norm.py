"""RMS normalization, forward and backward, against torch.nn.functional.rms_norm, 4096 x 1024.

Both sides allocate their outputs, as they do in a model. Backward is autograd's whole backward pass of the one op.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks._harness import Comparison, compare, main
from burnlike.ops import native_status, rms_norm

ROWS, WIDTH, EPSILON = 4096, 1024, 1e-5


def _distance(ours: Tensor, theirs: Tensor) -> str:
    return f"outputs differ by {(ours.double() - theirs.double()).abs().max().item():.1e} at most"


def _measure(dtype: torch.dtype, repeats: int) -> list[Comparison]:
    torch.manual_seed(0)
    x = torch.randn(ROWS, WIDTH).to(dtype).requires_grad_()
    gamma = torch.randn(WIDTH).to(dtype).requires_grad_()
    grad = torch.randn(ROWS, WIDTH).to(dtype)
    name = str(dtype).removeprefix("torch.")

    def ours() -> Tensor:
        return rms_norm(x, gamma, EPSILON)

    def theirs() -> Tensor:
        return F.rms_norm(x, (WIDTH,), gamma, EPSILON)

    def without_grad(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
        return torch.no_grad()(function)

    def backward(output: Tensor) -> Callable[[], tuple[Tensor, ...]]:
        return lambda: torch.autograd.grad(output, (x, gamma), grad, retain_graph=True)

    our_output, their_output = ours(), theirs()
    our_backward, their_backward = backward(our_output), backward(their_output)
    options = {"theirs_name": "F.rms_norm", "bar": 3.0, "repeats": repeats}
    return [
        compare(
            f"rms_norm forward {name} {ROWS} x {WIDTH}",
            without_grad(ours),
            without_grad(theirs),
            note=_distance(our_output, their_output),
            **options,
        ),
        compare(
            f"rms_norm backward {name} {ROWS} x {WIDTH}",
            our_backward,
            their_backward,
            note=_distance(our_backward()[0], their_backward()[0]),
            **options,
        ),
    ]


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    print(f"CPU kernels: {native_status().isa}")
    return [result for dtype in (torch.float32, torch.bfloat16) for result in _measure(dtype, repeats)]


if __name__ == "__main__":
    main(__doc__ or "", run)
