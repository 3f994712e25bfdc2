"""Dropout of a fused model draws torch's own numbers, and leaves torch's generator in the same state."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from burnlike.interop import fuse
from burnlike.interop.fused import functions
from burnlike.ops import native_status

from .fused_calls import FLOATS, TOLERANCE, leaf

pytestmark = pytest.mark.skipif(not functions.draws_as_torch(), reason="torch draws by another library on this machine")


def drawn(call: Callable[[], Any], seed: int = 5, odd: int = 1) -> tuple[Any, Tensor]:
    """What a call gives with this seed, after an odd number of draws, and the generator's state behind it."""
    torch.manual_seed(seed)
    torch.randint(0, 3, (odd,))
    return call(), torch.get_rng_state()


def count() -> int:
    return native_status().calls["bernoulli_noise_"]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dropout_is_torchs_bit_by_bit(dtype: torch.dtype) -> None:
    for (p, odd), sizes in itertools.product(((0.1, 1), (0.5, 2), (1e-9, 0)), ((2, 3, 257), (625,), (40, 1, 64))):
        x = leaf(*sizes, dtype=dtype)
        x.data[..., 0] = torch.inf
        before = count()
        (one, state), (other, stock_state) = (
            drawn(partial(call, x, p), odd=odd) for call in (functions.dropout, F.dropout)
        )
        assert count() == before + 1
        assert torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0))
        assert torch.equal(state, stock_state)
        gradients = (torch.autograd.grad(it.sum(), x)[0] for it in (one, other))
        torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda of, x: of(x, 0.0),
        lambda of, x: of(x, 1.0),
        lambda of, x: of(x, 0.5, False),
        lambda of, x: of(x.clone(), 0.5, True, True),
        lambda of, x: of(x.transpose(0, 1), 0.5),
        lambda of, x: of(x[:1], 0.5),
        lambda of, x: of(x.to("meta"), 0.5),
        lambda of, x: of(x.long(), 0.5),
        lambda of, x: torch.compile(lambda y: of(y, 0.5), backend="eager")(x),
    ],
)
def test_what_the_op_does_not_draw_torch_does(call: Callable[..., Any]) -> None:
    x, before = torch.randn(30, 40), count()
    results: list[Any] = []
    for of in (functions.dropout, F.dropout):
        try:
            results.append(drawn(partial(call, of, x)))
        except Exception as error:
            results.append(str(error))
    assert count() == before
    if isinstance(results[0], str):
        assert results[0] == results[1]
    else:
        torch.testing.assert_close(*results, rtol=0, atol=0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        functions.dropout(x, 1.5)


def test_a_fused_model_draws_what_the_stock_one_does() -> None:
    def made() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Sequential(nn.Dropout(0.0), nn.Linear(16, 8)))

    stock, fused, x = made(), made(), torch.randn(80, 8)
    assert ("1", ("dropout",)) in [(it.path, it.ops) for it in fuse(fused).fused]
    for training in (True, False):
        before = count()
        (one, state), (other, stock_state) = (drawn(partial(it.train(training), x)) for it in (fused, stock))
        torch.testing.assert_close(one, other)
        assert torch.equal(state, stock_state)
        assert count() - before == training


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_attention_with_dropout(dtype: torch.dtype, autocast: bool) -> None:
    heads = (2, 4, 20, 8)
    hidden = torch.rand(2, 1, 20, 20) > 0.4
    hidden[0, 0, 3] = False
    cases: list[dict[str, Any]] = [{}, {"is_causal": True}, {"attn_mask": hidden}, {"scale": 0.7}]
    cases += [{"attn_mask": torch.randn(20, 20).to(dtype)}, {"enable_gqa": True}]
    for case in cases:
        few = (2, 2, 20, 8) if "enable_gqa" in case else heads
        given = leaf(*heads, dtype=dtype), leaf(*few, dtype=dtype, seed=1), leaf(*few, dtype=dtype, seed=2)
        before, found = count(), []
        for call in (functions.attention, F.scaled_dot_product_attention):
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                result, state = drawn(partial(call, *given, dropout_p=0.2, **case))
            found.append((result, *torch.autograd.grad(result.float().sin().sum(), given), state))
        assert count() == before + 1
        near = TOLERANCE[torch.bfloat16 if autocast else dtype]
        for one, other in zip(*found, strict=True):
            assert one.dtype == other.dtype
            assert (one - other).double().norm() <= near * other.double().norm()
