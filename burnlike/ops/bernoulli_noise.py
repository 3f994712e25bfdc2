"""Dropout and its noise, of torch's own random numbers, made many at a time.

On most CPUs torch takes one number after the other from its generator. The native op gives the same ones and leaves the
generator in the same state; all else of dropout stays torch's: the product, its gradient and what is saved for it.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .._torch_compat.fake_tensors import with_values
from ._function import is_recorded, is_transformed
from ._library import WITHOUT_NATIVE, op

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
FEWEST_DRAWS = 512
"""Values for which torch takes about as long as the op with the generator's state."""

_bernoulli_noise = op("bernoulli_noise_")


def bernoulli_noise_(noise: Tensor, probability: float, scale: float = 1.0) -> Tensor:
    """Set each value to `scale` with this probability, else to 0, by the next numbers of torch's generator.

    On a CPU where torch takes one number after the other for `noise.bernoulli_(probability)` (all but Intel's, where it
    calls a library of Intel's), the numbers are the same, and so is the generator's state behind them. Like all that
    sets the generator's state it is not for several threads that draw at once. No derivative.

    Args:
        noise: contiguous, float32, float16, bfloat16 or float64, on the CPU; where its values were is no matter.
        probability: from 0 to 1, of float64.
        scale: rounded to the noise's dtype.

    Returns:
        The noise itself.
    """
    generator = torch.default_generator
    state = generator.get_state()
    _bernoulli_noise(noise, state, probability, scale)
    generator.set_state(state)
    return noise


def dropout(x: Tensor, probability: float, training: bool = True) -> Tensor:
    """`functional.dropout`, number for number: x, each value with this probability 0, else x / (1 - probability)."""
    if training is not True or not draws_many(x, probability):
        return functional.dropout(x, probability, training)
    return x * dropout_noise(x, probability)


def draws_many(x: Any, probability: Any) -> bool:
    """True if the op draws what torch's dropout would for this tensor and probability."""
    if not isinstance(probability, float) or not 0.0 < probability < 1.0 or torch.compiler.is_compiling():  # pyright: ignore[reportPrivateImportUsage]
        return False
    if type(x) not in (Tensor, torch.nn.Parameter) or not x.is_cpu or x.layout is not torch.strided or x.is_nested:
        return False
    is_usual = x.dtype in _DTYPES and x.is_contiguous() and x.numel() >= FEWEST_DRAWS
    return is_usual and not is_recorded() and not is_transformed() and draws_as_torch()


def dropout_noise(x: Tensor, probability: float) -> Tensor:
    """The factor of each value of x."""
    return bernoulli_noise_(torch.empty_like(x), 1 - probability, _scale(x.dtype, probability))


@cache
def _scale(dtype: torch.dtype, p: float) -> float:
    # Rounded as torch rounds it, by a division in the tensor's dtype: 1 / (1 - p) in Python may differ in the last bit.
    with with_values(), torch.inference_mode(False):
        return torch.ones(1, dtype=dtype, device="cpu").div_(1 - p).item()


@cache
def draws_as_torch() -> bool:
    """True if the op's numbers are those of torch's `bernoulli_` on this machine, and it leaves the same state.

    It is tried once, since torch may call Intel's library here, whose numbers are others.
    """
    if "cpu" in WITHOUT_NATIVE:
        return False
    generator = torch.default_generator
    before = generator.get_state()
    try:
        with with_values(), torch.device("cpu"), torch.inference_mode(False):
            return all(_draws_alike(seed, odd) for seed in (0, 12345) for odd in (0, 1, 3))
    finally:
        generator.set_state(before)


def _draws_alike(seed: int, odd: int) -> bool:
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for p in (0.1, 0.5, 0.9):
            draws: list[tuple[Tensor, Tensor]] = []
            for is_native in (False, True):
                torch.default_generator.manual_seed(seed)
                torch.randint(0, 3, (odd,), dtype=torch.int64)  # the generator may stand in the middle of a block
                noise = torch.empty(1500, dtype=dtype)
                if is_native:
                    bernoulli_noise_(noise, 1 - p, _scale(dtype, p))
                else:
                    noise.bernoulli_(1 - p).div_(1 - p)
                draws.append((noise, torch.default_generator.get_state()))
            if not all(torch.equal(one, other) for one, other in zip(*draws, strict=True)):
                return False
    return True
