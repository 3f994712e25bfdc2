"""`nn.LSTM` with the native op beside torch's own."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.interop import fuse, unfuse
from burnlike.ops import half_products, native_status

OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"num_layers": 3, "dropout": 0.4, "bias": False},
    {"num_layers": 2, "dropout": 0.4, "batch_first": True, "bidirectional": True},
]


def pair(**options: Any) -> tuple[nn.LSTM, nn.LSTM]:
    """A fused layer and one of the same weights as torch has it."""
    torch.manual_seed(0)
    stock = nn.LSTM(6, 10, **options)
    fused = copy.deepcopy(stock)
    assert [it.ops for it in fuse(fused).fused] == [("lstm",)]
    return fused, stock


def flat(result: Any) -> list[Tensor]:
    output, (hidden, cell) = result
    return [output, hidden, cell]


def calls() -> int:
    return native_status().calls["lstm_"]


@pytest.mark.parametrize("inner", [False, True])
def test_compiled_models_train_with_the_layer_as_it_is(inner: bool) -> None:
    """torch.compile traces no `nn.LSTM`, and can't differentiate `torch.lstm` on CPUs."""
    fused, stock = pair(batch_first=True)
    x = torch.randn(9, 9, 6)
    before, found = calls(), list[list[Tensor]]()
    for layer in (fused, stock):
        torch.compiler.reset()
        compiled: Any = torch.compile(nn.Sequential(layer) if inner else layer, backend="aot_eager")
        results = flat(compiled(x))
        grads = torch.autograd.grad(results[0].sum(), [*layer.parameters()])
        found.append([*results, *grads])
    assert calls() == before + 1
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("with_states", [True, False])
def test_results_gradients_and_random_numbers_are_those_of_torch(
    options: dict[str, Any], training: bool, with_states: bool
) -> None:
    fused, stock = (it.train(training) for it in pair(**options))
    x = torch.randn(9, 9, 6, requires_grad=True)
    count = stock.num_layers * (1 + stock.bidirectional)
    states = tuple(torch.randn(count, 9, 10, requires_grad=True) for _ in range(2)) if with_states else None
    found: list[list[Tensor]] = []
    before = calls()
    for layer in (fused, stock):
        torch.manual_seed(1)
        results = flat(layer(x, states))
        leaves = [x, *(states or ()), *layer.parameters()]
        grads = torch.autograd.grad(results, leaves, [torch.ones_like(it) for it in results])
        found.append([*results, *grads, torch.rand(1)])
    assert calls() == before + count
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_states_may_be_given_by_name() -> None:
    fused, stock = pair()
    x, states = torch.randn(5, 8, 6), (torch.randn(1, 8, 10), torch.randn(1, 8, 10))
    before = calls()
    torch.testing.assert_close(flat(fused(x, hx=states)), flat(stock(x, states)))
    torch.testing.assert_close(flat(fused(input=x, hx=states)), flat(stock(x, states)))
    assert calls() == before + 2


def test_bfloat16_and_autocast_give_torchs_dtypes() -> None:
    fused, stock = pair()
    x = torch.randn(5, 8, 6)
    fails = torch.bfloat16 in half_products.SLOW  # torch's own, on CPUs without products of bfloat16
    with torch.autocast("cpu", torch.bfloat16, enabled=not fails):
        theirs = [result.bfloat16() if fails else result for result in flat(stock(x))]
    with torch.autocast("cpu", torch.bfloat16):
        ours = flat(fused(x))
    assert [result.dtype for result in ours] == [result.dtype for result in theirs]
    torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)
    ours = flat(fused.bfloat16()(x.bfloat16()))
    theirs = flat(stock(x) if fails else stock.bfloat16()(x.bfloat16()))
    torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2, check_dtype=not fails)


def test_it_trains_within_autocast_to_float16_on_every_cpu() -> None:
    """Torch's own fails on a CPU that has AVX-512 for float16, but no AMX."""
    fused, stock = pair()
    x = torch.randn(5, 8, 6)
    with torch.autocast("cpu", torch.float16):
        output, _ = fused(x)
    output.float().sum().backward()
    stock(x)[0].sum().backward()
    assert output.dtype == torch.float16
    for ours, theirs in zip(fused.parameters(), stock.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=2e-2, atol=2e-2)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_what_the_op_does_not_take_is_left_to_torch() -> None:
    fused, stock = pair()
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(5, 8, 6), torch.tensor([5, 5, 4, 4, 3, 2, 2, 1]))
    before = calls()
    torch.testing.assert_close(fused(packed)[0].data, stock(packed)[0].data)
    with pytest.raises(RuntimeError, match=r"input.size"):
        fused(torch.randn(5, 8, 7))
    with pytest.raises(RuntimeError, match="hidden"):
        fused(torch.randn(5, 8, 6), (torch.zeros(1, 8, 9), torch.zeros(1, 8, 9)))
    assert calls() == before
    projected = nn.LSTM(6, 10, proj_size=4)
    fuse(projected)
    assert projected(torch.randn(5, 8, 6))[0].shape == (5, 8, 4)
    assert calls() == before


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
    "slow", [frozenset[torch.dtype](), frozenset((torch.bfloat16, torch.float16))], ids=["", "slow"]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_layers_with_projections_are_torchs_within_autocast(
    packed: bool, dtype: torch.dtype, slow: frozenset[torch.dtype], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_products, "SLOW", slow)
    stock = nn.LSTM(6, 10, proj_size=4, num_layers=2, bidirectional=True)
    fused = copy.deepcopy(stock)
    fuse(fused)
    x: Any = torch.randn(5, 3, 6)
    x = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 4, 2])) if packed else x
    with torch.autocast("cpu", dtype):
        found = [flat(layer(x)) for layer in (fused, stock)]
    torch.testing.assert_close(*([it[0].data, *it[1:]] for it in found), rtol=0, atol=0)
    assert found[0][2].dtype == torch.float32


def test_second_derivatives_and_unfuse() -> None:
    fused, _ = (it.double() for it in pair())
    x = torch.randn(3, 8, 6, dtype=torch.float64)
    fused.float()
    inputs = x.float().requires_grad_()
    (first,) = torch.autograd.grad(fused(inputs)[0].square().sum(), inputs, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), inputs)
    assert second.isfinite().all()
    assert second.abs().max() > 0
    assert unfuse(fused) == 1
    before = calls()
    fused(inputs)
    assert calls() == before
