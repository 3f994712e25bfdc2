"""Attention's forward pass in bfloat16 on CPUs that multiply it, against float64 and torch's own."""

import pytest
import torch
from torch import Tensor

from burnlike.ops import attention, attention_reference, native_status

SHAPES = [
    # batch, heads, heads of keys, queries, keys, d_head
    (8, 6, 6, 256, 256, 64),
    (2, 4, 4, 128, 128, 32),
    (1, 6, 2, 150, 131, 48),
    (2, 4, 1, 300, 700, 16),
    (1, 2, 2, 700, 300, 64),
    (1, 3, 3, 33, 2100, 8),
    (1, 1, 1, 1111, 1111, 40),
]


def made(batch: int, heads: int, heads_kv: int, queries: int, keys: int, d_head: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, queries, heads, d_head), *[(batch, keys, heads_kv, d_head)] * 2)
    return [torch.randn(it, generator=generator).bfloat16().transpose(1, 2) for it in shapes]


def error(y: Tensor, exact: Tensor) -> float:
    return (y.double() - exact).square().mean().sqrt().item()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_is_as_near_to_float64_as_torch(shape: tuple[int, ...], causal: bool) -> None:
    inputs = made(*shape)
    exact = attention_reference(*(it.double() for it in inputs), causal=causal)
    before = native_status().calls["attention"]
    ours, theirs = (function(*inputs, causal=causal) for function in (attention, attention_reference))
    assert native_status().calls["attention"] == before + 1
    assert (ours.shape, ours.stride(), ours.dtype) == (theirs.shape, theirs.stride(), theirs.dtype)
    assert error(ours, exact) <= 1.02 * error(theirs, exact)


@pytest.mark.parametrize(("shape", "causal"), [(SHAPES[0], True), (SHAPES[3], False), (SHAPES[4], True)], ids=str)
def test_gradients_follow_from_it(shape: tuple[int, ...], causal: bool) -> None:
    inputs = [it.detach().requires_grad_() for it in made(*shape)]
    seed = torch.randn(inputs[0].shape).bfloat16()
    exact_inputs = [it.detach().double().requires_grad_() for it in inputs]
    exact = torch.autograd.grad(attention_reference(*exact_inputs, causal=causal), exact_inputs, seed.double())
    ours, theirs = (
        torch.autograd.grad(function(*inputs, causal=causal), inputs, seed)
        for function in (attention, attention_reference)
    )
    for our, their, true in zip(ours, theirs, exact, strict=True):
        assert error(our, true) <= 1.05 * error(their, true)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_has_the_same_bits_with_any_number_of_threads(shape: tuple[int, ...]) -> None:
    inputs = made(*shape)
    expected = attention(*inputs, causal=True)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            assert torch.equal(attention(*inputs, causal=True), expected)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["query", "key", "value"])
@pytest.mark.parametrize("causal", [False, True])
def test_special_values_spread_as_in_float64(special: float, place: int, causal: bool) -> None:
    """Torch's own in bfloat16, which runs on other processors, loses some NaN of infinite scores."""
    inputs = made(1, 2, 2, 140, 140, 16)
    inputs[place][0, 1, 70, 3] = special
    multiplies_bfloat16 = native_status().isa == "avx512_bf16"
    double = [it.double() for it in inputs]
    ours, exact = attention(*inputs, causal=causal), attention_reference(*double, causal=causal)
    assert exact.isnan().any() or place == 2
    if not multiplies_bfloat16:
        exact = attention_reference(*inputs, causal=causal)
    elif causal and place == 2:  # a value that is hidden, times its weight of zero: torch adds it, we leave it out
        assert ours[:, :, :64].isfinite().all()
        ours, exact = ours[:, :, 70:], exact[:, :, 70:]
    assert torch.equal(ours.isnan(), exact.isnan())
    assert torch.equal(ours.isinf(), exact.isinf())


def test_large_scores_stay_finite() -> None:
    query, key, value = made(1, 2, 2, 140, 140, 16)
    ours, theirs = (function(query * 1e4, key * 1e4, value) for function in (attention, attention_reference))
    assert ours.isfinite().all()
    torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)


def test_strides_of_any_kind() -> None:
    query, key, value = made(2, 2, 2, 140, 140, 16)
    expected = attention(query, key, value)
    others = (query.contiguous(), key.mT.contiguous().mT, torch.cat([value, value], -1)[..., :16])
    assert torch.equal(attention(*others), expected)
