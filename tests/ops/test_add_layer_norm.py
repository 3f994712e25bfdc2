"""A sum and its layer normalization as one op: what the table of cases does not say."""

import pytest
import torch

from burnlike.errors import DTypeError, ShapeError
from burnlike.ops import add_layer_norm


def test_wrong_arguments_are_named() -> None:
    x, ones = torch.randn(3, 8), torch.ones(8)
    with pytest.raises(ShapeError, match=r"add_layer_norm: expected residual of shape \[3, 8\], got \[3, 1\]"):
        add_layer_norm(x, torch.ones(3, 1), ones)
    with pytest.raises(DTypeError, match=r"add_layer_norm: expected beta of dtype float32, got float64"):
        add_layer_norm(x, x, ones, ones.double())
