"""Attention against its formula in float64, kernel and fallback alike."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from burnlike import Cpu, Tensor
from burnlike.backend import Autodiff
from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import module
from burnlike.tensor.options import AttentionModuleOptions

FUNCTIONS = [module.attention, module.attention_fallback]


def qkv(rows: int = 3, columns: int = 5) -> list[torch.Tensor]:
    shapes = [(2, 2, rows, 4), (2, 2, columns, 4), (2, 2, columns, 6)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def typed(tensors: list[torch.Tensor]) -> list[Any]:
    return [Tensor(it, Autodiff(Cpu())) for it in tensors]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("has_mask", [False, True])
def test_scores_are_scaled_capped_hidden_and_biased_in_this_order(
    function: Any, softcap: float | None, is_causal: bool, has_bias: bool, has_mask: bool
) -> None:
    tensors = qkv()
    query, key, value = tensors
    mask = torch.zeros(2, 1, 3, 5, dtype=torch.bool)
    mask[:, :, 1, :2] = True
    bias = torch.randn(1, 2, 3, 5, dtype=torch.float64)
    scores = query @ key.mT * 0.7
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(mask, -math.inf) if has_mask else scores
    # The last query is at the last key: query i sees keys up to i + 2.
    later = torch.arange(5)[None] > torch.arange(3)[:, None] + 2
    scores = scores.masked_fill(later, -math.inf) if is_causal else scores
    expected = (scores + bias if has_bias else scores).softmax(-1) @ value
    options = AttentionModuleOptions(scale=0.7, softcap=softcap, is_causal=is_causal)
    out = function(*typed(tensors), mask if has_mask else None, bias if has_bias else None, options).inner
    torch.testing.assert_close(out, expected)
    grad = torch.randn_like(out)
    for found, wanted in zip(
        torch.autograd.grad(out, tensors, grad), torch.autograd.grad(expected, tensors, grad), strict=True
    ):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_query_that_sees_nothing_gives_zero_and_finite_gradients(function: Any) -> None:
    tensors = qkv(4, 2)  # causal: the first two queries come before every key
    mask = torch.zeros(2, 2, 4, 2, dtype=torch.bool)
    mask[0, 0, 3] = True
    out = function(*typed(tensors), mask, None, AttentionModuleOptions(is_causal=True)).inner
    assert out[:, :, :2].abs().sum() == 0
    assert out[0, 0, 3].abs().sum() == 0
    assert out.isfinite().all()
    for grad in torch.autograd.grad(out.sum(), tensors):
        assert grad.isfinite().all()


def test_the_usual_case_is_torchs() -> None:
    tensors = qkv(3, 3)
    out = module.attention(*typed(tensors), options=AttentionModuleOptions(is_causal=True))
    query, key, value = tensors
    torch.testing.assert_close(out.inner, F.scaled_dot_product_attention(query, key, value, is_causal=True))


def test_shapes_that_do_not_fit_are_refused() -> None:
    query, key, value = typed(qkv())
    with pytest.raises(TensorValueError, match=r"key: expected shape \[2, 2, k, 4\]"):
        module.attention(query, value, value)
    with pytest.raises(TensorValueError, match=r"value: expected shape \[2, 2, 5, 'dv'\]"):
        module.attention(query, key, query)
    with pytest.raises(TensorValueError, match=r"mask: expected shape \[2, 2, 3, 5\], or 1"):
        module.attention(query, key, value, torch.zeros(2, 2, 3, 4, dtype=torch.bool))
    with pytest.raises(TensorTypeError, match="expected a Bool tensor, got one of kind Float"):
        module.attention(query, key, value, torch.zeros(2, 2, 3, 5))
