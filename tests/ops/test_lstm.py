"""An LSTM over whole sequences: beside torch's in float64, its derivatives, its bits, and what is left to torch."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

from burnlike import ops
from burnlike.errors import BurnlikeError
from burnlike.ops import force_cpu_isa, native_status

lstm: Any = ops.lstm
lstm_: Any = ops.lstm_
lstm_gains: Any = ops.lstm_gains
lstm_reference: Any = ops.lstm_reference

SIZES = [(5, 8, 7, 11), (1, 4, 3, 1), (9, 17, 20, 36), (3, 33, 130, 64)]
"""Steps, rows, and sizes of the input and of the state."""
DISTANCES = {torch.float64: 1e-12, torch.float32: 3e-6, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def drawn(
    sizes: Sequence[int], dtype: torch.dtype, *, bias: bool = True, batch_first: bool = False
) -> tuple[list[Any], list[Any]]:
    """x and the states, and the weights, that require gradients."""
    torch.manual_seed(0)
    time, batch, d_input, size = sizes
    x = torch.randn(batch, time, d_input).transpose(0, 1) if batch_first else torch.randn(time, batch, d_input)
    weights = [torch.randn(4 * size, d_input) / d_input**0.5, torch.randn(4 * size, size) / size**0.5]
    weights += [torch.randn(4 * size) for _ in range(2 if bias else 0)]
    tensors = [x, torch.randn(batch, size), torch.randn(batch, size), *weights]
    x, hidden, cell, *weights = (it.to(dtype).requires_grad_() for it in tensors)
    return [x, hidden, cell], [*weights, *[None] * (4 - len(weights))]


def in_float64(tensors: Sequence[Tensor | None]) -> list[Any]:
    return [None if it is None else it.detach().double().requires_grad_() for it in tensors]


def by_torch(x: Tensor, hidden: Tensor, cell: Tensor, weights: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    present = [it for it in weights if it is not None]
    output, *last = torch.lstm(x, (hidden[None], cell[None]), present, len(present) > 2, 1, 0.0, True, False, False)
    return output, *(it[0] for it in last)


def gradients(results: Sequence[Tensor], tensors: Sequence[Tensor | None]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    seeds = [torch.randn(it.shape, generator=generator, dtype=torch.float64).to(it.dtype) for it in results]
    return list(torch.autograd.grad(results, [it for it in tensors if it is not None], seeds))


def assert_near(found: Sequence[Tensor], exact: Sequence[Tensor], distance: float) -> None:
    for one, other in zip(found, exact, strict=True):
        assert one.shape == other.shape
        scale = max(other.abs().max().item(), 1e-3)
        assert (one.double() - other).abs().max().item() <= distance * scale


@pytest.mark.parametrize("dtype", DISTANCES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("bias", "batch_first"), [(True, False), (False, True)])
def test_values_and_gradients_are_near_those_of_torch_in_float64(
    dtype: torch.dtype, sizes: tuple[int, ...], bias: bool, batch_first: bool
) -> None:
    given, weights = drawn(sizes, dtype, bias=bias, batch_first=batch_first)
    exact_given, exact_weights = in_float64(given), in_float64(weights)
    before = native_status().calls["lstm_"]
    results = lstm(*given, tuple(weights))
    assert native_status().calls["lstm_"] == before + 1
    assert {it.dtype for it in results} == {dtype}
    exact = by_torch(*exact_given, exact_weights)
    assert_near(results, exact, DISTANCES[dtype])
    found = gradients(results, given + weights)
    assert_near(found, gradients(exact, exact_given + exact_weights), 3 * DISTANCES[dtype])


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_both_directions_and_steps_that_are_not_read(batch_first: bool, reverse: bool, masked: bool) -> None:
    given, weights = drawn((6, 9, 5, 13), torch.float64, batch_first=batch_first)
    kept = torch.rand(6, 9) < 0.6 if masked else None
    results = lstm(*given, tuple(weights), kept, reverse)
    expected = lstm_reference(*given, tuple(weights), kept, reverse)
    assert_near(results, expected, 1e-13)
    found, exact = (gradients(it, given + weights) for it in (results, expected))
    assert_near(found, exact, 1e-12)


@pytest.mark.parametrize("chosen", [(0,), (1,), (2,)])
def test_results_that_have_no_gradient_count_as_zero(chosen: tuple[int, ...]) -> None:
    given, weights = drawn((4, 5, 3, 6), torch.float64)
    found, exact = (
        gradients([function(*given, tuple(weights))[place] for place in chosen], given + weights)
        for function in (lstm, lstm_reference)
    )
    assert_near(found, exact, 1e-12)


@pytest.mark.parametrize("missing", [2, 3])
def test_one_bias_of_the_two(missing: int) -> None:
    given, weights = drawn((4, 5, 3, 6), torch.float64)
    weights[missing] = None
    results, expected = (function(*given, tuple(weights)) for function in (lstm, lstm_reference))
    assert_near(results, expected, 1e-13)
    assert_near(gradients(results, given + weights), gradients(expected, given + weights), 1e-12)


def test_a_graph_that_is_kept_gives_its_gradients_again() -> None:
    given, weights = drawn((5, 8, 7, 12), torch.float32)
    results = lstm(*given, tuple(weights))
    leaves = [*given, *(it for it in weights if it is not None)]
    seeds = [torch.randn_like(it) for it in results]
    first, second = (torch.autograd.grad(results, leaves, seeds, retain_graph=True) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("masked", [False, True])
def test_first_and_second_derivatives(masked: bool) -> None:
    given, weights = drawn((3, 4, 2, 3), torch.float64)
    kept = torch.rand(3, 4) < 0.6 if masked else None

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        x, hidden, cell, *rest = tensors
        return lstm(x, hidden, cell, tuple(rest), kept)

    inputs = [*given, *(it for it in weights if it is not None)]
    assert gradcheck(function, inputs, fast_mode=True)
    assert gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_vectors_and_threads_give_the_same_bits(dtype: torch.dtype) -> None:
    isas = [it for it in native_status().isas if it in ("avx2", "avx512")]
    if not isas:
        pytest.skip("a processor without AVX2")
    threads = torch.get_num_threads()
    found: list[list[Tensor]] = []
    for isa in isas:
        for count in (1, 3):
            torch.set_num_threads(count)
            try:
                with force_cpu_isa(isa):
                    found.append(_steps(dtype))
            finally:
                torch.set_num_threads(threads)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert torch.equal(one, other)


def steps_of(sizes: Sequence[int], dtype: torch.dtype = torch.float32, batch_first: bool = False) -> list[Any]:
    """Arguments of `lstm_`, some steps of which are not read."""
    (x, hidden, cell), (of_input, of_hidden, bias, _) = drawn(sizes, dtype, batch_first=batch_first)
    kept = torch.rand(*sizes[:2]) < 0.8
    tensors = [x, of_input, bias, of_hidden, hidden, cell, kept]
    return [it.detach() for it in tensors]


def _steps(dtype: torch.dtype) -> list[Tensor]:
    arguments = steps_of((6, 29, 19, 37), dtype)
    gates, hidden, cells = lstm_(*arguments)
    forward = gates.clone()
    backward = torch.ops.burnlike.lstm_backward
    results = backward(torch.ones_like(hidden), None, None, gates, cells, arguments[3], arguments[6], False)
    rows = gates.flatten(0, 1), hidden.flatten(0, 1)
    of_weights = [torch.ops.burnlike.weight_backward(*rows, by_columns) for by_columns in (False, True)]
    assert torch.equal(*of_weights)
    return [forward, gates, hidden, cells, *results, of_weights[0]]


@pytest.mark.parametrize("batch_first", [False, True])
def test_ops_are_registered_as_they_compute(batch_first: bool) -> None:
    arguments = steps_of((3, 4, 5, 2), batch_first=batch_first)
    opcheck(torch.ops.burnlike.lstm_.default, (*arguments, True))
    opcheck(torch.ops.burnlike.lstm_.default, (*arguments[:2], None, *arguments[3:], False))
    gates, _, cells = lstm_(*arguments, True)
    for by_columns in (False, True):
        opcheck(torch.ops.burnlike.weight_backward.default, (torch.randn(5, 8), torch.randn(5, 3), by_columns))
    grads = (torch.randn(3, 4, 2), torch.randn(4, 2), None)
    opcheck(torch.ops.burnlike.lstm_backward.default, (*grads, gates, cells, arguments[3], arguments[6], True))


@pytest.mark.parametrize("sizes", [(0, 4, 5, 2), (3, 0, 5, 2), (3, 4, 5, 0), (3, 4, 0, 2)])
def test_nothing_to_compute(sizes: tuple[int, ...]) -> None:
    arguments = steps_of(sizes)
    x, of_input, bias, of_hidden, hidden, cell, kept = arguments
    gates, states, cells = lstm_(*arguments)
    assert states.shape == (*sizes[:2], sizes[3])
    torch.testing.assert_close(cells[0], cell)
    *grads, _ = torch.ops.burnlike.lstm_backward(None, hidden, cell, gates, cells, of_hidden, kept, False)
    if sizes[0] == 0:
        torch.testing.assert_close(grads, [hidden, cell])
    if sizes[2] == 0:
        expected, *_ = lstm_reference(x, hidden, cell, (of_input, of_hidden, bias, None), kept)
        torch.testing.assert_close(states, expected)


@pytest.mark.parametrize(("outputs", "width", "rows"), [(1, 1, 3), (5, 3, 4), (0, 3, 4), (3, 0, 4), (3, 2, 0)])
@pytest.mark.parametrize("dtype", DISTANCES, ids=str)
def test_threads_may_be_more_than_columns_of_a_gradient(
    outputs: int, width: int, rows: int, dtype: torch.dtype
) -> None:
    grad, x, threads = torch.randn(rows, outputs).to(dtype), torch.randn(rows, width).to(dtype), torch.get_num_threads()
    torch.set_num_threads(8)
    try:
        gradient = torch.ops.burnlike.weight_backward(grad, x, False)
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(gradient, grad.mT @ x, rtol=2e-2, atol=2e-2)


def test_within_autocast_it_computes_in_its_dtype() -> None:
    given, weights = drawn((5, 8, 7, 12), torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        results = lstm(*given, tuple(weights))
    assert {it.dtype for it in results} == {torch.bfloat16}
    found = gradients(results, given + weights)
    assert {it.dtype for it in found} == {torch.float32}
    exact_given, exact_weights = in_float64(given), in_float64(weights)
    exact = by_torch(*exact_given, exact_weights)
    assert_near(results, exact, 2e-2)
    assert_near(found, gradients(exact, exact_given + exact_weights), 5e-2)


def test_it_gains_with_rows_for_each_thread_on_the_cpu() -> None:
    given, weights = drawn((5, 4 * torch.get_num_threads(), 7, 12), torch.float32)
    x, others = given[0], [*given[1:], *weights]
    assert lstm_gains(x, 12, others)
    with torch.no_grad():
        assert lstm_gains(x, 12, others)
    assert not lstm_gains(x.double(), 12, [it.double() for it in others if it is not None])
    assert not lstm_gains(x, 12, [others[0], *(it for it in in_float64(others[1:]))])
    assert not lstm_gains(x[:0], 12, others)
    assert not lstm_gains(x, 10_000, others)
    assert not torch.func.vmap(lambda it: torch.tensor(lstm_gains(it, 12, others)).expand(1))(x.unsqueeze(0)).any()
    if torch.get_num_threads() > 1:
        assert not lstm_gains(x[:, :1], 12, others)


@pytest.mark.parametrize(
    ("place", "shape", "message"),
    [
        (0, (3, 4), r"x of shape \[0, 0, 4\]"),
        (1, (8, 3), r"of_input of shape \[8, 5\]"),
        (2, (7,), r"bias of shape \[8\]"),
        (3, (8, 3), r"of_hidden of shape \[12, 3\]"),
        (4, (5, 2), r"hidden of shape \[4, 2\]"),
        (5, (4, 3), r"cell of shape \[4, 2\]"),
        (6, (4, 3), r"kept of shape \[3, 4\]"),
    ],
)
def test_another_shape_is_named(place: int, shape: tuple[int, ...], message: str) -> None:
    arguments = steps_of((3, 4, 5, 2))
    arguments[place] = torch.ones(shape) > 0 if place == 6 else torch.randn(shape)
    with pytest.raises(BurnlikeError, match=message):
        lstm_(*arguments)


def test_another_dtype_is_named_and_gates_of_another_order_are_refused() -> None:
    arguments = steps_of((3, 4, 5, 2))
    with pytest.raises(BurnlikeError, match="of_hidden of dtype float32, got float64"):
        lstm_(*arguments[:3], arguments[3].double(), *arguments[4:])
    with pytest.raises(BurnlikeError, match="kept of dtype bool, got float32"):
        lstm_(*arguments[:6], torch.ones(3, 4))
    gates, _, cells = lstm_(*arguments)
    shared = gates[:1].expand(3, 4, 8)
    with pytest.raises(RuntimeError, match="gates of the forward pass"):
        torch.ops.burnlike.lstm_backward(None, None, None, shared, cells, arguments[3], None, False)
