"""Attention: dropout, caches, errors, torch's layer; the table of cases has its numbers."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn as torch_nn

from burnlike import Autodiff, Cpu, Tensor as Typed, nn
from burnlike.errors import ConfigError, DTypeError, ShapeError
from burnlike.nn.attention.multi_head_attention import COUNTERPARTS
from burnlike.nn.torch_counterpart import NoCounterpartError
from burnlike.ops import native_status
from tests.nn.cases import made_by

CONFIG = nn.MultiHeadAttentionConfig(d_model=8, n_heads=2, dropout=0.0)


def made(**options: object) -> nn.MultiHeadAttention:
    torch.manual_seed(0)
    return CONFIG.replace(**options).init().double()


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_dropout_is_of_the_weights_after_the_softmax() -> None:
    layer = made(dropout=0.5)
    x = draw(2, 40, 8)
    weights, context = layer(x)
    assert weights is not None
    kept = made()(x).weights
    assert kept is not None
    dropped = weights == 0
    assert 0.4 < dropped.double().mean() < 0.6
    torch.testing.assert_close(weights, torch.where(dropped, 0.0, 2 * kept))
    value = layer.value(x).unflatten(-1, (2, 4)).transpose(1, 2)
    torch.testing.assert_close(context, layer.output((weights @ value).transpose(1, 2).flatten(2)))
    assert not torch.equal(layer(x, need_weights=False).context, layer(x, need_weights=False).context)
    layer.eval()
    torch.testing.assert_close(layer(x).weights, kept)
    torch.testing.assert_close(layer(x, need_weights=False).context, layer(x).context)


@pytest.mark.parametrize("min_float", [-1e4, -2.0])
def test_weights_and_gradients_behind_masks_are_those_of_the_formula(min_float: float) -> None:
    layer, grad = made(min_float=min_float), draw(2, 2, 5, 5)
    mask_pad, mask_attn = torch.zeros(2, 5, dtype=torch.bool), draw(2, 5, 5) < 0
    mask_pad[0, 3:] = True
    mask_attn[1, 2] = True  # from this query all keys are hidden
    x = draw(2, 5, 8).requires_grad_()
    weights = layer(x, mask_pad=mask_pad, mask_attn=mask_attn).weights
    assert weights is not None
    query, key = (part(x).unflatten(-1, (2, 4)).transpose(1, 2) for part in (layer.query, layer.key))
    hidden = mask_pad[:, None, None] | mask_attn[:, None]
    expected = (query @ key.mT / 2).masked_fill(hidden, min_float).softmax(-1)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(weights[1, :, 2], torch.full((2, 5), 0.2, dtype=torch.float64))
    found, exact = (torch.autograd.grad(it, x, grad, retain_graph=True)[0] for it in (weights, expected))
    torch.testing.assert_close(found, exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("min_float", [-1e4, -1e9])
@pytest.mark.parametrize("quiet_softmax", [False, True])
def test_fused_gradients_of_a_query_without_a_visible_key_are_those_of_float64(
    dtype: torch.dtype, min_float: float, quiet_softmax: bool
) -> None:
    layer, x, grad = made(min_float=min_float, quiet_softmax=quiet_softmax), draw(2, 5, 8), draw(2, 5, 8)
    mask_pad, mask_attn = torch.zeros(2, 5, dtype=torch.bool), torch.zeros(2, 5, 5, dtype=torch.bool)
    mask_pad[0], mask_attn[1, 2] = True, True
    results = []
    for kind in (torch.float64, dtype):
        layer, leaf = layer.to(kind), x.to(kind).requires_grad_()
        # With weights they are computed step by step.
        y = layer(leaf, mask_pad=mask_pad, mask_attn=mask_attn, need_weights=kind == torch.float64).context
        leaves = [leaf, layer.value.weight, layer.query.weight]
        results.append([it.double() for it in (y, *torch.autograd.grad(y, leaves, grad.to(kind)))])
    for exact, found in zip(*results, strict=True):
        tolerance = 1e-5 if dtype == torch.float32 else 3e-2
        assert (found - exact).abs().max() <= tolerance * exact.abs().max()


def test_weights_behind_a_mask_are_of_the_native_op() -> None:
    before = native_status().calls["masked_softmax"]
    mask = torch.zeros(2, 5, dtype=torch.bool)
    made()(draw(2, 5, 8), mask_pad=mask)
    assert native_status().calls["masked_softmax"] == before + 1
    made(min_float=-2.0)(draw(2, 5, 8), mask_pad=mask)
    made(quiet_softmax=True)(draw(2, 5, 8), mask_pad=mask)
    assert native_status().calls["masked_softmax"] == before + 1


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (3, 2), (1, 3, 1)], ids=str)
def test_a_cache_computes_the_new_positions_only(sizes: tuple[int, ...], need_weights: bool) -> None:
    layer, cache = made(), nn.MhaCache.autoregressive()
    x = draw(2, 5, 8)
    causal, pad = nn.generate_autoregressive_mask(2, 5), torch.tensor([[False] * 5, [False, True] + [False] * 3])
    whole = layer(x, mask_pad=pad, mask_attn=causal)
    seen: list[int] = []
    layer.key.register_forward_hook(lambda module, given, output: seen.append(given[0].shape[1]))
    end = 0
    for size in sizes:
        end += size
        mask = causal[:, :end, :end]
        found = layer.forward_cache(
            x[:, :end], mask_pad=pad[:, :end], mask_attn=mask, cache=cache, need_weights=need_weights
        )
        torch.testing.assert_close(found.context, whole.context[:, :end])
        if need_weights:
            torch.testing.assert_close(found.weights, whole.weights[:, :, :end, :end])
    assert seen == list(sizes)


def test_a_cache_without_new_positions_is_an_error() -> None:
    layer, cache = made(), nn.MhaCache.autoregressive()
    layer.forward_cache(draw(2, 3, 8), cache=cache)
    with pytest.raises(ShapeError, match="MultiHeadAttention: query: expected more than the 3 positions of the cache"):
        layer.forward_cache(draw(2, 3, 8), cache=cache)


def test_keys_and_values_of_a_memory_are_computed_once() -> None:
    layer, cache = made(), nn.MhaCache.autoregressive_cross_attention()
    x, memory = draw(2, 3, 8), draw(2, 4, 8)
    layer.forward_cache(x[:, :1], memory, cache=cache)
    found = layer.forward_cache(x, torch.zeros_like(memory), cache=cache)
    torch.testing.assert_close(found.context, layer(x, memory).context)
    torch.testing.assert_close(found.weights, layer(x, memory).weights)


def test_a_cache_takes_typed_tensors() -> None:
    layer, cache = made(), nn.MhaCache.autoregressive()
    x = draw(1, 3, 8)
    for backend in (Cpu(), Autodiff(Cpu())):
        cache = nn.MhaCache.autoregressive()
        layer.forward_cache(Typed(x[:, :2], backend), cache=cache)
        found = layer.forward_cache(Typed(x, backend), cache=cache, need_weights=False)
        assert found.weights is None
        torch.testing.assert_close(found.context.inner[:, 2].detach(), layer(x).context[:, 2].detach())


def test_a_context_is_computed_once() -> None:
    config = nn.CrossAttentionConfig(d_model=6, d_context=5, n_heads=4, n_heads_kv=2, d_head=2, dropout=0.0)
    layer, cache = config.init().double(), nn.CrossAttentionCache()
    context, mask = draw(2, 4, 5), torch.tensor([[False, True, False, False]] * 2)
    for x in (draw(2, 3, 6), draw(2, 1, 6)):
        found = layer.forward_cache(x, context if cache.k.tensor is None else context * 0, mask, cache=cache)
        torch.testing.assert_close(found, layer(x, context, mask))


def test_the_scale_of_cross_attention_is_burns_to_the_last_digit() -> None:
    config = nn.CrossAttentionConfig(d_model=1, d_context=1, n_heads=1, n_heads_kv=1, d_head=2)
    assert "  scale: 0.7071067811865475\n" in str(config.init())


def test_half_precision_does_not_overflow() -> None:
    layer = made().half()
    x = draw(2, 4, 8).half()
    mask = torch.tensor([[True] * 4, [False, True] * 2])
    one, other = layer(x, mask_pad=mask), layer(x, mask_pad=mask, need_weights=False)
    assert one.context.isfinite().all()
    torch.testing.assert_close(one.context, other.context, rtol=1e-2, atol=1e-2)


def test_inputs_and_masks_that_do_not_fit_are_refused() -> None:
    layer, x = made(), draw(2, 4, 8)
    with pytest.raises(ShapeError, match=r"MultiHeadAttention: key: expected \[2, keys, 8\], got \[3, 4, 8\]"):
        layer(x, draw(3, 4, 8))
    with pytest.raises(ShapeError, match=r"value: expected \[2, 5, 8\], got \[2, 4, 8\]"):
        layer(x, draw(2, 5, 8), x)
    with pytest.raises(ShapeError, match=r"mask_pad: expected \[2, 4\], got \[4, 2\]"):
        layer(x, mask_pad=torch.zeros(4, 2, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"mask_attn: expected \[2, 4, 4\], got \[4, 4\]"):
        layer(x, mask_attn=torch.zeros(4, 4, dtype=torch.bool))
    with pytest.raises(DTypeError, match="mask_pad: expected bool, True where it hides"):
        layer(x, mask_pad=torch.zeros(2, 4))


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"n_heads: expected a divisor of d_model \(8\), got 3"):
        CONFIG.replace(n_heads=3)
    with pytest.raises(ConfigError, match=r"n_heads_kv: expected a divisor of n_heads \(4\), got 3"):
        nn.CrossAttentionConfig(d_model=6, d_context=5, n_heads=4, n_heads_kv=3, d_head=2)


@settings(max_examples=6, deadline=None)
@given(
    st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.booleans(), st.booleans(), st.data()
)
def test_gradients_and_shapes(
    batch: int, queries: int, keys: int, heads: int, quiet: bool, weights: bool, data: st.DataObject
) -> None:
    config = nn.MultiHeadAttentionConfig(d_model=2 * heads, n_heads=heads, dropout=0.0, quiet_softmax=quiet)
    layer = config.init().double()
    x, y = (torch.randn(batch, it, 2 * heads, dtype=torch.float64, requires_grad=True) for it in (queries, keys))
    size = batch * keys
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=size, max_size=size))).reshape(batch, keys)

    def context(x: Tensor, y: Tensor) -> Tensor:
        return layer(x, y, mask_pad=mask, need_weights=weights).context

    assert torch.autograd.gradcheck(context, (x, y))
    meta = config.init("meta")(x.float().to("meta"), y.float().to("meta"), mask_pad=mask.to("meta"))
    assert meta.context.shape == context(x, y).shape
    assert meta.weights.shape == (batch, heads, queries, keys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "batch_first=False"),
        ({"batch_first": True, "kdim": 4}, "kdim"),
        ({"batch_first": True, "add_bias_kv": True}, "add_bias_kv"),
    ],
    ids=str,
)
def test_options_that_only_torch_has_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(NoCounterpartError, match=words):
        COUNTERPARTS[0].config(torch_nn.MultiheadAttention(8, 2, **options))


def test_the_config_of_torchs_layer() -> None:
    theirs = torch_nn.MultiheadAttention(8, 2, dropout=0.3, bias=False, add_zero_attn=True, batch_first=True)
    config = COUNTERPARTS[0].config(theirs)
    assert (config.dropout, config.quiet_softmax, config.key_bias, config.output_bias) == (0.3, True, False, False)
    assert COUNTERPARTS[0].config(COUNTERPARTS[0].build(config.init(), torch.device("cpu"))) == config
    with pytest.raises(NoCounterpartError, match="biases for some"):
        COUNTERPARTS[0].build(made(key_bias=False), torch.device("cpu"))


def test_a_key_of_zeros_is_the_quiet_softmax() -> None:
    pair, ours = COUNTERPARTS[0], made(quiet_softmax=True)
    theirs = pair.build(ours, torch.device("cpu")).double()
    theirs.load_state_dict(made_by(pair.recipes(ours.state_dict()), ours.state_dict()))
    x, memory = draw(2, 3, 8), draw(2, 4, 8)
    context, weights = theirs(x, memory, memory, average_attn_weights=False)
    torch.testing.assert_close(ours(x, memory).context, context)
    torch.testing.assert_close(ours(x, memory).weights, weights[..., :-1])
