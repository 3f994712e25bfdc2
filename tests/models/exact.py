"""transformers' models in float64 throughout: they compute norms, rotations and routing in float32 by themselves."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch


@contextmanager
def in_float64() -> Iterator[None]:
    """Within it, what code calls float32 is float64, in tables that are made and in what is computed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "float32", torch.float64)
        patch.setattr(torch, "float", torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield
