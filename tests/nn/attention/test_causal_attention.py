"""Attention of decoders with a cache: the same numbers, also compiled, and what is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike import nn
from burnlike.errors import ConfigError, DTypeError, ShapeError

CONFIG = nn.CausalAttentionConfig(d_model=8, n_heads=4, n_heads_kv=2, d_head=4, bias=True)
ROTARY = nn.RotaryEncodingConfig(max_sequence_length=8, d_model=4)
PADDED = torch.tensor([[True, True, True, False, False, False], [False] * 6])
OPTIONS: list[dict[str, Any]] = [{}, {"sliding_window": 2}, {"soft_cap": 1.0}, {"sliding_window": 3, "soft_cap": 2.0}]


def in_parts(layer: Any, x: Tensor, sizes: list[int], mask_pad: Tensor | None = None) -> Tensor:
    """The output for `x` that comes in parts, with a cache that has room for more."""
    cache = layer.new_cache(x.shape[0], 8)
    if mask_pad is not None:
        mask_pad = torch.cat((mask_pad, torch.zeros(2, 2, dtype=torch.bool)), 1)
    return torch.cat([layer(part, mask_pad, cache=cache) for part in x.split(sizes, 1)], 1)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("padded", [False, True])
def test_a_cache_gives_the_same_numbers(options: dict[str, Any], padded: bool) -> None:
    layer = CONFIG.replace(**options).init(rotary=ROTARY.init()).double()
    x, mask_pad = torch.randn(2, 6, 8, dtype=torch.float64), PADDED if padded else None
    expected = layer(x, mask_pad)
    assert torch.isfinite(expected).all()
    for sizes in ([6], [1] * 6, [4, 1, 1], [2, 3, 1]):
        torch.testing.assert_close(in_parts(layer, x, sizes, mask_pad), expected, rtol=1e-12, atol=1e-12)


def test_one_compiled_graph_serves_all_positions() -> None:
    layer = CONFIG.replace(sliding_window=3).init(rotary=ROTARY.init()).double().eval()
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    graphs: list[Any] = []

    def counted(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    with torch.no_grad():
        expected = layer(x)
        found = in_parts(torch.compile(layer, fullgraph=True, backend=counted), x, [1] * 6)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert len(graphs) == 1


def test_padding_changes_nothing_for_the_others() -> None:
    layer = CONFIG.init(rotary=ROTARY.init()).double()
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    alone = layer(x)
    longer = torch.cat((torch.randn(1, 2, 8, dtype=torch.float64), x), 1)
    mask_pad = torch.tensor([[True, True, False, False, False]])
    found = layer(longer, mask_pad, torch.tensor([[0, 0, 0, 1, 2]]))
    torch.testing.assert_close(found[:, 2:], alone, rtol=1e-12, atol=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    layer = CONFIG.init()
    x = torch.randn(2, 4, 8)
    with pytest.raises(ShapeError, match=r"mask_pad: expected \[2, 4\], got \[2, 3\]"):
        layer(x, torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(DTypeError, match="mask_pad: expected bool"):
        layer(x, torch.zeros(2, 4))
    with pytest.raises(ShapeError, match=r"positions: expected \[2, 4\], got \[4\]"):
        layer(x, positions=torch.arange(4))
    with pytest.raises(ShapeError, match=r"mask_pad: expected \[2, 8\], got \[2, 4\]"):
        layer(x, torch.zeros(2, 4, dtype=torch.bool), cache=layer.new_cache(2, 8))
    with pytest.raises(ShapeError, match=r"cache.key: expected \[2, 2, length, 4\], got \[3, 2, 8, 4\]"):
        layer(x, cache=layer.new_cache(3, 8))


def test_heads_must_fit() -> None:
    with pytest.raises(ConfigError, match=r"n_heads_kv: expected a divisor of n_heads \(4\), got 3"):
        CONFIG.replace(n_heads_kv=3)
    with pytest.raises(ConfigError, match="n_heads: expected a divisor of d_model"):
        nn.CausalAttentionConfig(d_model=8, n_heads=3)
