"""Encodings of positions: tables that move, scaled frequencies, names of Burn's."""

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor, nn as torch_nn

from burnlike import nn
from burnlike.errors import ArgumentError, ConfigError

SHORT = nn.RotaryEncodingConfig(max_sequence_length=4, d_model=4)
LONG = nn.RotaryEncodingConfig(max_sequence_length=30, d_model=4)


def test_shifted_tables_go_on_past_their_end() -> None:
    rotary, reference = SHORT.init(), LONG.init()
    x = torch.randn(2, 3, 4)
    for start in (2, 5, 20):
        rotary.shift(start)
        assert torch.equal(rotary(x), reference(x, start))
        assert torch.equal(rotary.apply(x, 1), reference(x, start + 1))
    assert rotary.start_offset == 20
    rotary.reset()
    assert torch.equal(rotary(x), reference(x))


def test_tables_go_forward_only() -> None:
    rotary = SHORT.init()
    rotary.shift(3)
    with pytest.raises(ArgumentError, match="expected a start behind 3, where the tables begin, got 3"):
        rotary.shift(3)


def test_copies_are_shifted_and_scaled_alike() -> None:
    rotary = SHORT.init_with_frequency_scaling(lambda frequencies: frequencies / 2)
    rotary.shift(3)
    x = torch.randn(4, 4)
    for other in (copy.deepcopy(rotary), pickle.loads(pickle.dumps(rotary))):
        assert torch.equal(other(x), rotary(x))
        other.shift(4)
        assert other.start_offset == 4
    assert rotary.start_offset == 3


def test_scaled_frequencies() -> None:
    rotary = SHORT.init_with_frequency_scaling(lambda frequencies: frequencies / 2)
    torch.testing.assert_close(rotary.theta, torch.tensor([0.5, 0.005]))
    x = torch.tensor([[[0.0] * 4, [0.0] * 4, [1.0, 0.0, 0.0, 1.0]]])
    expected = torch.tensor([math.cos(1), math.sin(1), -math.sin(0.01), math.cos(0.01)])
    torch.testing.assert_close(rotary(x)[0, 2], expected)
    meta = SHORT.init_with_frequency_scaling(lambda frequencies: frequencies / 2, "meta").to_empty(device="cpu")
    meta.reset_non_persistent_buffers(torch.device("cpu"))
    assert torch.equal(meta(x), rotary(x))


def test_the_table_of_burn_has_each_angle_for_both_of_a_pair() -> None:
    table = SHORT.init().freq_complex
    assert table.shape == (4, 4, 2)
    expected = torch.tensor([[math.cos(it), math.sin(it)] for it in (2, 2, 0.02, 0.02)])
    torch.testing.assert_close(table[2], expected)


def test_a_function_is_applied_as_torch_does() -> None:
    model = torch_nn.Sequential(SHORT.init(), torch_nn.Linear(2, 2))
    seen: list[str] = []
    model.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["RotaryEncoding", "Linear", "Sequential"]


def test_sinusoids_are_computed_in_float64() -> None:
    table = nn.generate_sinusoids(5000, 6, 10000)
    p, rate = 4999, 10000 ** (-2 / 6)
    expected = torch.tensor([math.sin(p), math.cos(p), math.sin(p * rate), math.cos(p * rate)])
    torch.testing.assert_close(table[p, :4], expected, rtol=0, atol=1e-7)


def test_the_table_is_made_anew_after_meta_and_follows_x() -> None:
    config = nn.PositionalEncodingConfig(d_model=4, max_sequence_size=6)
    layer = config.init("meta").to_empty(device="cpu")
    layer.reset_non_persistent_buffers(torch.device("cpu"))
    x: Tensor = torch.zeros(1, 6, 4)
    assert torch.equal(layer(x), config.init()(x))
    assert layer(x.bfloat16()).dtype is torch.bfloat16
    assert not layer.state_dict()


def test_what_makes_no_table_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"max_timescale: expected at least max_sequence_size \(5000\), got 100"):
        nn.PositionalEncodingConfig(d_model=4, max_timescale=100)
    with pytest.raises(ConfigError, match="d_model"):
        nn.PositionalEncodingConfig(d_model=5)


def turned(x: Tensor, rotary: nn.RotaryEncoding) -> Tensor:
    """Su et al. 2021, eq. 34, for pairs of neighbours, in complex numbers."""
    angle = torch.arange(x.shape[-2]).double()[:, None] * rotary.theta.double()
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


@pytest.mark.parametrize("shape", [(5, 4), (2, 5, 4), (2, 3, 5, 4), (2, 1, 3, 5, 4)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_number_of_dimensions_is_rotated(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    rotary, x = LONG.init(), torch.randn(shape).to(dtype).requires_grad_()
    y = rotary(x)
    assert y.dtype == dtype
    # In half precision there is one rounding, of the result.
    precision = torch.finfo(dtype).eps
    torch.testing.assert_close(y.double(), turned(x, rotary), rtol=precision, atol=precision / 2)
    (grad,) = torch.autograd.grad(y, x, y)
    torch.testing.assert_close(grad, x, rtol=2 * precision, atol=2 * precision)


@pytest.mark.parametrize("positions", [None, torch.tensor([4, 0, 9]), torch.tensor([[1, 2, 3], [7, 7, 0]])], ids=str)
@pytest.mark.parametrize("interleaved", [False, True])
def test_both_are_rotated_as_each_alone(positions: Tensor | None, interleaved: bool) -> None:
    rotary = LONG.replace(d_model=8, rotary_dim=6, interleaved=interleaved).init()
    query, key = torch.randn(2, 3, 4, 8).transpose(1, 2), torch.randn(2, 1, 3, 8)
    both = rotary.rotate_both(query, key, 0, positions)
    assert torch.equal(both[0], rotary(query, 0, positions))
    assert torch.equal(both[1], rotary(key, 0, positions))
