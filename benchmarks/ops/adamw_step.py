"""A step of AdamW over a whole model, as a user takes it, against torch.optim.AdamW(fused=True).

Ours is `GradientsParams.from_module` and `OptimizerAdaptor.step`, theirs is `optimizer.step()` and `zero_grad()`.
Both leave the parameters without gradients; before each call both get the same gradients back, outside of the timing.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from benchmarks._harness import Comparison, compare, main
from burnlike.ops import native_status
from burnlike.optim import AdamWConfig, GradientsParams

LR, BETAS, EPSILON, WEIGHT_DECAY = 1e-3, (0.9, 0.999), 1e-5, 1e-2


def _model(shapes: Sequence[Sequence[int]]) -> nn.Module:
    torch.manual_seed(0)
    return nn.ParameterList([torch.randn(*shape) * 0.02 for shape in shapes])


def _give(model: nn.Module, grads: Sequence[Tensor]) -> None:
    for param, grad in zip(model.parameters(), grads, strict=True):
        param.grad = grad


def _measure(name: str, shapes: Sequence[Sequence[int]], bar: float, repeats: int) -> Comparison:
    our_model, their_model = _model(shapes), _model(shapes)
    torch.manual_seed(1)
    grads = [torch.randn(*shape) for shape in shapes]
    config = AdamWConfig(beta_1=BETAS[0], beta_2=BETAS[1], epsilon=EPSILON, weight_decay=WEIGHT_DECAY)
    our_optimizer = config.init()
    their_optimizer = torch.optim.AdamW(
        their_model.parameters(), lr=LR, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY, fused=True
    )

    def ours() -> None:
        our_optimizer.step(LR, our_model, GradientsParams.from_module(our_model))

    def theirs() -> None:
        their_optimizer.step()
        their_optimizer.zero_grad()

    result = compare(
        name,
        ours,
        theirs,
        before_ours=lambda: _give(our_model, grads),
        before_theirs=lambda: _give(their_model, grads),
        theirs_name="torch fused",
        bar=bar,
        repeats=repeats,
    )
    pairs = zip(our_model.parameters(), their_model.parameters(), strict=True)
    distance = max((one - other).abs().max().item() for one, other in pairs)
    print(f"  after {result.repeats + 3} steps the parameters differ by {distance:.1e} at most")
    return result


def run(repeats: int) -> list[Comparison]:
    """Measure a large model and one of many small tensors."""
    print(f"CPU kernels: {native_status().isa}")
    # The tensors of a language model: of each block two vectors and matrices for attention and feed-forward.
    width, blocks = 768, 12
    block = [(width,), (3 * width, width), (3 * width,), (width, width), (width,), (width,)]
    block += [(width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,), (width,)]
    large = [(9192, width), *block * blocks, (width,)]
    values = sum(torch.Size(shape).numel() for shape in large)
    return [
        _measure(f"AdamW step, {len(large)} tensors, {values / 1e6:.1f} M values", large, 1.0, max(5, repeats // 3)),
        _measure("AdamW step, 300 tensors of 64 values", [(64,)] * 300, 3.0, repeats * 10),
    ]


if __name__ == "__main__":
    main(__doc__ or "", run)
