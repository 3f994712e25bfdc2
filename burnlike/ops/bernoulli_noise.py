"""Dropout and its noise, of torch's own random numbers, made many at a time.

On most CPUs torch takes one number after the other from its generator. The native op gives the same ones and leaves the
generator in the same state; all else of dropout stays torch's: the product, its gradient and what is saved for it.
"""

import sys
import threading
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .._torch_compat.fake_tensors import with_values
from ._function import is_recorded, is_transformed
from ._library import WITHOUT_NATIVE, op

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_FEWEST_DRAWS = 512
"""Values for which torch takes about as long as the op with the generator's state."""
_NEVER_DRAW = ("QueueFeederThread", "TMonitor", "burnlike-watch", "SaveThread")
"""Names of threads, or of their classes, that draw nothing: a DataLoader's, tqdm's and burnlike's own."""

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
    is_plain = training is True and type(x) in (Tensor, torch.nn.Parameter) and x.is_cpu and not x.is_nested
    is_usual = is_plain and x.layout is torch.strided and x.dtype in _DTYPES and x.is_contiguous()
    if not is_usual or not draws_now(x.numel(), probability):
        return functional.dropout(x, probability, training)
    return x * dropout_noise(x, probability)


def draws_now(count: int, probability: Any) -> bool:
    """True if the op draws so many numbers faster than torch, and no other thread can draw at the same time."""
    if torch.compiler.is_compiling() or is_recorded() or is_transformed():  # pyright: ignore[reportPrivateImportUsage]
        return False
    is_usual = isinstance(probability, float) and 0.0 < probability < 1.0 and count >= _FEWEST_DRAWS
    return is_usual and draws_as_torch() and _is_alone()


def _is_alone() -> bool:
    # torch holds its generator's lock in each call alone: what others draw or seed between the op's two would be lost.
    others = sys._current_frames().keys() - {threading.get_ident()}  # pyright: ignore[reportPrivateUsage]
    quiet = (it for it in threading.enumerate() if it.name in _NEVER_DRAW or type(it).__name__ in _NEVER_DRAW)
    return not others or others <= {it.ident for it in quiet}


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
    with with_values(), torch.device("cpu"), torch.inference_mode(False):
        return all(_draws_alike(seed, odd) for seed in (0, 12345) for odd in (0, 1, 3))


def _draws_alike(seed: int, odd: int) -> bool:
    for dtype in _DTYPES:
        for p in (0.1, 0.5, 0.9):
            generator = torch.Generator().manual_seed(seed)  # others may draw by torch's global one now
            torch.randint(0, 3, (odd,), generator=generator)  # it may stand in the middle of a block
            noise, state = torch.empty(1500, dtype=dtype), generator.get_state()
            _bernoulli_noise(noise, state, 1 - p, _scale(dtype, p))
            drawn = torch.empty_like(noise).bernoulli_(1 - p, generator=generator).div_(1 - p)
            if not torch.equal(noise, drawn) or not torch.equal(state, generator.get_state()):
                return False
    return True
