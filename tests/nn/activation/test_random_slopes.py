"""RRelu draws its slopes in training alone."""

import torch

from burnlike.mlax import Key
from burnlike.nn import RReluConfig

CONFIG = RReluConfig(lower=0.1, upper=0.3)


def test_each_slope_is_drawn_evenly_between_the_bounds() -> None:
    x = -torch.ones(20_000)
    for rng in (None, Key(0), torch.Generator().manual_seed(0)):
        slopes = -CONFIG.init()(x, rng)
        assert 0.1 <= slopes.min() < 0.101
        assert 0.299 < slopes.max() <= 0.3
        assert abs(slopes.mean() - 0.2) < 0.001
        assert abs(slopes.std() - 0.2 / 12**0.5) < 0.001


def test_its_gradient_is_the_slope() -> None:
    for rng in (None, Key(0)):
        x = torch.tensor([-2.0, -1.0, 3.0], requires_grad=True)
        y = CONFIG.init()(x, rng)
        y.sum().backward()
        torch.testing.assert_close(x.grad, (y / x).detach())
        assert y[2] == 3


def test_what_it_is_drawn_by_decides_the_slopes() -> None:
    layer, x = CONFIG.init(), -torch.ones(10)
    assert torch.equal(layer(x, Key(1)), layer(x, Key(1)))
    assert not torch.equal(layer(x, Key(1)), layer(x, Key(2)))
    assert not torch.equal(layer(x), layer(x))


def test_evaluation_draws_nothing() -> None:
    layer, x = CONFIG.init().eval(), torch.tensor([-2.0, -1.0, 0.5])
    before = torch.get_rng_state()
    torch.testing.assert_close(layer(x), torch.tensor([-0.4, -0.2, 0.5]))
    assert torch.equal(layer(x, Key(0)), layer(x))
    assert torch.equal(torch.get_rng_state(), before)
