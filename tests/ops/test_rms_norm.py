import pytest
import torch

from burnlike.ops import native_status, rms_norm


def test_known_values() -> None:
    # mean(9, 16) = 12.5; 3 / sqrt(12.5) = 0.8485..., times gamma.
    y = rms_norm(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 2.0]), 0.0)
    torch.testing.assert_close(y, torch.tensor([0.848528137, 2.262741700]))


def test_large_values_do_not_overflow_in_half_precision() -> None:
    x = torch.full((2, 64), 6e4, dtype=torch.float16)
    torch.testing.assert_close(rms_norm(x, torch.ones(64, dtype=torch.float16)), torch.ones_like(x))


def test_special_values_spread_over_their_row_only() -> None:
    x = torch.ones(3, 40)
    x[0, 5], x[1, 7] = float("nan"), float("inf")
    y = rms_norm(x, torch.ones(40))
    assert y[0].isnan().all()
    assert y[1, 7].isnan()
    assert (y[1, :7] == 0).all()
    torch.testing.assert_close(y[2], torch.ones(40), rtol=1e-5, atol=0)


# Inductor itself still uses what torch deprecates.
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_inductor_calls_the_native_op() -> None:
    torch.compiler.reset()
    gamma = torch.randn(32, requires_grad=True)
    compiled = torch.compile(lambda x: rms_norm(x, gamma), fullgraph=True)
    x = torch.randn(4, 32, requires_grad=True)
    before = native_status().calls
    y = compiled(x)
    y.backward(torch.ones_like(y))
    after = native_status().calls
    assert after["rms_norm"] > before["rms_norm"]
    assert after["rms_norm_backward"] > before["rms_norm_backward"]
    torch.testing.assert_close(y, rms_norm(x, gamma), rtol=0, atol=0)
