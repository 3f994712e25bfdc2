"""A sum and its RMS normalization as one op: what the table of cases does not say."""

import pytest
import torch

from burnlike.errors import DeviceError, DTypeError, ShapeError
from burnlike.ops import add_rms_norm


def test_wrong_arguments_are_named() -> None:
    x, ones = torch.randn(3, 8), torch.ones(8)
    with pytest.raises(ShapeError, match=r"add_rms_norm: expected residual of shape \[3, 8\], got \[8\]"):
        add_rms_norm(x, ones, ones)
    with pytest.raises(ShapeError, match=r"add_rms_norm: expected gamma of shape \[8\], got \[7\]"):
        add_rms_norm(x, x, torch.ones(7))
    with pytest.raises(DTypeError, match=r"expected residual of dtype float32, got bfloat16; .*to\(torch.float32\)"):
        add_rms_norm(x, x.bfloat16(), ones)
    with pytest.raises(DeviceError, match=r"expected residual on cpu, got meta; move it"):
        add_rms_norm(x, x.to("meta"), ones)
