"""The noise of dropout, of torch's own random numbers, made many at a time."""

import torch
from torch import Tensor

from ._library import op

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
