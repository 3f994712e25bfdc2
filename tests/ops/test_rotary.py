import math

import pytest
import torch
from torch import Tensor
from transformers.models.cohere import modeling_cohere
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama

from burnlike.errors import AutodiffError, DTypeError, ShapeError
from burnlike.ops import native_status, rotary, rotary_reference


def heads(batch: int = 2, count: int = 4, length: int = 5, width: int = 16) -> Tensor:
    """As a projection writes them."""
    return torch.randn(batch, length, count, width, dtype=torch.float64).transpose(1, 2)


def angles(*shape: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of random angles."""
    angle = torch.randn(shape, dtype=torch.float64)
    return angle.cos(), angle.sin()


def doubled(table: Tensor) -> Tensor:
    return torch.cat((table, table), -1)


@pytest.mark.parametrize("batch", [1, 2])
def test_halves_are_those_of_llama(batch: int) -> None:
    query, key, (cos, sin) = heads(), heads(count=2), angles(batch, 5, 8)
    expected = modeling_llama.apply_rotary_pos_emb(query, key, doubled(cos), doubled(sin))
    columns = slice(8)
    torch.testing.assert_close(rotary(query, key, doubled(cos)[..., columns], doubled(sin)[..., columns]), expected)
    torch.testing.assert_close(rotary_reference(query, key, cos, sin), expected)


def test_the_rest_is_copied_as_in_gpt_neox() -> None:
    query, key, (cos, sin) = heads(), heads(), angles(2, 5, 3)
    expected = modeling_gpt_neox.apply_rotary_pos_emb(query, key, doubled(cos), doubled(sin))
    torch.testing.assert_close(rotary(query, key, cos, sin), expected)
    assert torch.equal(rotary(query, key, cos, sin)[0][..., 6:], query[..., 6:])


def test_tables_whose_halves_differ_are_those_of_llama() -> None:
    query, key, (cos, sin) = heads(), heads(count=2), angles(2, 5, 16)
    leaves = [it.requires_grad_() for it in (query, key)]
    expected = modeling_llama.apply_rotary_pos_emb(query, key, cos, sin)
    seeds = [torch.randn_like(it) for it in expected]
    for function in (rotary, rotary_reference):
        actual = function(query, key, cos, sin)
        torch.testing.assert_close(actual, expected)
        gradients = (torch.autograd.grad(it, leaves, seeds, retain_graph=True) for it in (actual, expected))
        torch.testing.assert_close(*gradients)


def test_neighbours_are_those_of_cohere() -> None:
    query, key, (cos, sin) = heads(), heads(count=1), angles(1, 5, 8)
    cos, sin = cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)
    # Theirs computes in float32.
    expected = modeling_cohere.apply_rotary_pos_emb(query, key, cos, sin)
    actual = rotary(query, key, cos[..., ::2], sin[..., ::2], interleaved=True)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_known_values() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4)
    cos, sin = torch.tensor([[0.0, -1.0]]), torch.tensor([[1.0, 0.0]])  # a quarter and a half of a turn
    assert rotary(x, x, cos, sin)[0].flatten().tolist() == [-3.0, -2.0, 1.0, -4.0]
    assert rotary(x, x, cos, sin, interleaved=True)[1].flatten().tolist() == [-2.0, 1.0, -3.0, -4.0]


def test_start_is_the_row_of_the_first_position() -> None:
    query, key, (cos, sin) = heads(), heads(), angles(9, 8)
    expected = rotary(query, key, cos[3:8], sin[3:8])
    assert all(map(torch.equal, rotary(query, key, cos, sin, 3), expected))
    assert all(map(torch.equal, rotary_reference(query, key, cos, sin), rotary_reference(query, key, cos[:5], sin[:5])))
    for start in (-1, 5):
        with pytest.raises(ShapeError, match=rf"cos with the rows {start} to {start + 5}, .*got 9 rows"):
            rotary(query, key, cos, sin, start)


def test_results_keep_the_order_of_memory_and_so_do_gradients() -> None:
    cos, sin = angles(5, 8)
    query, key = heads().requires_grad_(), heads(count=3).contiguous().requires_grad_()
    turned = rotary(query, key, cos, sin)
    assert [it.stride() for it in turned] == [query.stride(), key.stride()]
    back = torch.autograd.grad(turned, (query, key), [torch.ones_like(it) for it in turned])
    assert [it.stride() for it in back] == [query.stride(), key.stride()]


def test_gradient_is_turned_back() -> None:
    query, key, (cos, sin) = heads().requires_grad_(), heads().requires_grad_(), angles(5, 8)
    turned = rotary(query, key, cos, sin)
    torch.testing.assert_close(torch.autograd.grad(turned, (query, key), turned), (query, key))


def test_only_one_result_may_be_used() -> None:
    query, key, (cos, sin) = heads().requires_grad_(), heads(), angles(5, 8)
    (grad,) = torch.autograd.grad(rotary(query, key, cos, sin)[0].square().sum(), query)
    torch.testing.assert_close(grad, 2 * query)


def test_second_derivative() -> None:
    query, key, (cos, sin) = heads(1, 1, 2, 4).requires_grad_(), heads(1, 1, 2, 4).requires_grad_(), angles(2, 1)
    assert torch.autograd.gradgradcheck(lambda q, k: tuple(it**3 for it in rotary(q, k, cos, sin)), (query, key))


def test_only_the_tables_are_saved() -> None:
    query, key, (cos, sin) = heads().requires_grad_(), heads().requires_grad_(), angles(5, 8)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda it: saved.append(it) or it, lambda it: it):
        rotary(query, key, cos, sin)
    assert [it.data_ptr() for it in saved] == [cos.data_ptr(), sin.data_ptr()]


def test_tables_have_no_gradient() -> None:
    query, (cos, sin) = heads(), angles(5, 8)
    with pytest.raises(AutodiffError, match="rotary_reference"):
        rotary(query, query, cos.requires_grad_(), sin)
    with torch.no_grad():
        rotary(query, query, cos, sin)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_error_is_that_of_one_rounding(dtype: torch.dtype) -> None:
    query, (cos, sin) = heads(length=50).to(dtype), angles(50, 8)
    exact = rotary_reference(query.double(), query.double(), cos.float().double(), sin.float().double())[0]
    actual = rotary(query, query, cos.float(), sin.float())[0]
    assert ((actual.double() - exact).abs() <= exact.abs() * torch.finfo(dtype).eps / 2 + 1e-6).all()


def test_special_values_spread_over_their_pair_only() -> None:
    x = torch.ones(1, 1, 1, 6)
    x[..., 1], x[..., 5] = math.nan, math.inf
    table = torch.full((1, 3), 0.5)
    y = rotary(x, x, table, table)[0].flatten()
    assert y.isnan().tolist() == [False, True, False, False, True, False]
    assert y[[2, 5]].tolist() == [-math.inf, math.inf]


def test_runs_natively_forward_and_backward() -> None:
    before = native_status().calls["rotary"]
    query, (cos, sin) = heads().requires_grad_(), angles(5, 8)
    rotary(query, query, cos, sin)[0].sum().backward()
    assert native_status().calls["rotary"] == before + 2


def test_vmap_and_func_take_the_reference() -> None:
    query, key, (cos, sin) = heads(3), heads(3), angles(5, 8)
    each = torch.vmap(lambda q, k: rotary(q[None], k[None], cos, sin))(query, key)
    torch.testing.assert_close(each[0][:, 0], rotary(query, key, cos, sin)[0])


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_for_changing_lengths_and_starts(dynamic: bool) -> None:
    torch.compiler.reset()
    compiled = torch.compile(rotary, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    cos, sin = angles(20, 8)
    for length, start in ((5, 0), (7, 2), (9, 11)):
        query = heads(length=length).requires_grad_()
        actual, expected = compiled(query, query, cos, sin, start), rotary(query, query, cos, sin, start)
        assert all(map(torch.equal, actual, expected))
        assert actual[0].stride() == expected[0].stride()
        actual[1].sum().backward()
        assert query.grad is not None


def test_wrong_shapes_are_named() -> None:
    query, (cos, sin) = heads(), angles(5, 8)
    with pytest.raises(ShapeError, match=r"query \[batch, heads, sequence, d\], got \[4, 5, 16\]"):
        rotary(query[0], query, cos, sin)
    with pytest.raises(ShapeError, match=r"key \[2, heads, 5, 16\], as query has it, got \[1, 4, 5, 16\]"):
        rotary(query, query[:1], cos, sin)
    with pytest.raises(ShapeError, match=r"cos \[5, r / 2\] or \[2 or 1, 5, r / 2\] .*got \[3, 5, 8\]"):
        rotary(query, query, cos.expand(3, 5, 8), sin.expand(3, 5, 8))
    with pytest.raises(ShapeError, match=r"at most 8 columns, .*got 12; .*take cos\[..., : r // 2\]"):
        rotary(query, query, doubled(cos)[..., :12], doubled(sin)[..., :12])
    with pytest.raises(ShapeError, match=r"at most 8 columns, .*got 16"):
        rotary(query, query, doubled(cos), doubled(sin), interleaved=True)
    with pytest.raises(ShapeError, match=r"sin of cos's shape \[5, 8\], got \[5, 7\]"):
        rotary(query, query, cos, sin[:, :7])


def test_wrong_dtypes_and_devices_are_named() -> None:
    query, (cos, sin) = heads().float(), angles(5, 8)
    with pytest.raises(DTypeError, match=r"expected cos of dtype float32, got float64"):
        rotary(query, query, cos, sin)
    with pytest.raises(DTypeError, match=r"expected sin of dtype float32, got float64"):
        rotary(query, query, cos.float(), sin)
