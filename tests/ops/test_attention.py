import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.library import opcheck

from burnlike.errors import ArgumentError, DTypeError, ShapeError
from burnlike.ops import attention, attention_reference, force_cpu_isa, half_products, native_status

from ..marks import slow

HALVES = (torch.bfloat16, torch.float16)
ISAS = native_status().isas
# The kernels of processors that multiply bfloat16, where this is one, and those of all others.
WAYS = [(torch.bfloat16, ISAS[-1]), (torch.bfloat16, ISAS[0]), (torch.float16, ISAS[-1])]


def heads(dtype: torch.dtype, batch: int, length: int, n_heads: int, d_head: int) -> Tensor:
    """`[batch, n_heads, length, d_head]`, as a layer splits heads."""
    return torch.randn(batch, length, n_heads, d_head).to(dtype).transpose(1, 2).detach().requires_grad_()


@contextmanager
def calls_of_the_op(expected: int) -> Iterator[None]:
    before = native_status().calls
    yield
    after = native_status().calls
    for name in ("attention", "attention_backward"):
        assert after[name] - before[name] == expected, name


Forms = Callable[[int, int], tuple[Tensor | None, bool]]
FORMS: dict[str, Forms] = {
    "all": lambda queries, keys: (None, False),
    "causal": lambda queries, keys: (None, True),
    "bool": lambda queries, keys: (torch.rand(2, 1, queries, keys) < 0.7, False),
    "additive": lambda queries, keys: (
        torch.randn(2, 4, queries, keys).masked_fill(torch.rand(keys) < 0.2, -1e9),
        False,
    ),
}


@pytest.mark.parametrize(("dtype", "isa"), WAYS, ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("queries", "keys", "heads_kv", "d_head"),
    [(24, 24, 4, 64), (150, 150, 2, 32), (300, 140, 1, 33), (140, 300, 4, 48), (1, 67, 2, 80), (70, 1, 4, 7)],
)
def test_results_are_as_near_to_float64_as_those_of_torch(
    dtype: torch.dtype, isa: str, form: str, queries: int, keys: int, heads_kv: int, d_head: int
) -> None:
    torch.manual_seed(0)
    inputs = [heads(dtype, 2, queries, 4, d_head), *(heads(dtype, 2, keys, heads_kv, d_head) for _ in range(2))]
    mask, causal = FORMS[form](queries, keys)
    mask = mask if mask is None or mask.dtype == torch.bool else mask.to(dtype)
    seed = torch.randn(2, 4, queries, d_head).to(dtype)

    def results(function: Callable[..., Tensor], tensors: list[Tensor], mask: Tensor | None) -> tuple[Tensor, ...]:
        output = function(*tensors, mask, causal)
        return output, *torch.autograd.grad(output, tensors, seed.to(tensors[0].dtype))

    is_native = dtype == torch.bfloat16 or dtype not in half_products.SLOW
    with calls_of_the_op(int(is_native)), force_cpu_isa(isa):
        ours = results(attention, inputs, mask)
    theirs = results(attention_reference, inputs, mask)
    exact_mask = mask.double() if mask is not None and mask.is_floating_point() else mask
    exact = results(attention_reference, [it.detach().double().requires_grad_() for it in inputs], exact_mask)

    for name, our, their, expected in zip(("output", "query", "key", "value"), ours, theirs, exact, strict=True):
        # Of one key all weights are 1, so that gradients of queries and keys are zero.
        least = 1e-5 * seed.double().norm()
        assert (our.double() - expected).norm() <= 1.15 * (their.double() - expected).norm() + least, name


@pytest.mark.parametrize("isa", [ISAS[-1], ISAS[0]])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("soft_cap", "dropout"), [(1.5, 0.0), (None, 0.3), (1.5, 0.3)])
@pytest.mark.parametrize(("queries", "keys", "heads_kv", "d_head"), [(150, 131, 2, 33), (64, 64, 4, 16)])
def test_soft_cap_and_noise_are_as_near_to_float64_as_steps_of_torch(
    isa: str, form: str, soft_cap: float | None, dropout: float, queries: int, keys: int, heads_kv: int, d_head: int
) -> None:
    torch.manual_seed(0)
    dtype = torch.bfloat16
    inputs = [heads(dtype, 2, queries, 4, d_head), *(heads(dtype, 2, keys, heads_kv, d_head) for _ in range(2))]
    mask, causal = FORMS[form](queries, keys)
    noise = (torch.rand(2, 4, queries, keys) >= dropout) / (1 - dropout) if dropout else None
    seed = torch.randn(2, 4, queries, d_head).to(dtype)

    def expected() -> tuple[Tensor, ...]:
        query, key, value = (it.detach().double().requires_grad_() for it in inputs)
        shared = [it.repeat_interleave(4 // heads_kv, 1) for it in (key, value)]
        scores = query @ shared[0].mT * d_head**-0.5
        scores = scores if soft_cap is None else soft_cap * (scores / soft_cap).tanh()
        if mask is not None and mask.dtype != torch.bool:
            scores = scores + mask.to(dtype)
        hidden = ~mask if mask is not None and mask.dtype == torch.bool else torch.zeros(1, dtype=torch.bool)
        hidden = torch.ones(queries, keys, dtype=torch.bool).triu(1) if causal else hidden
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        output = (weights if noise is None else weights * noise) @ shared[1]
        return output, *torch.autograd.grad(output, (query, key, value), seed.double())

    def results(function: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        given = mask if mask is None or mask.dtype == torch.bool else mask.to(dtype)
        output = function(*inputs, given, causal, None, soft_cap, noise)
        return output, *torch.autograd.grad(output, inputs, seed)

    with calls_of_the_op(int(isa == "avx512_bf16")), force_cpu_isa(isa):
        ours = results(attention)
    theirs = results(attention_reference)
    for name, our, their, exact in zip(("output", "query", "key", "value"), ours, theirs, expected(), strict=True):
        if dtype not in half_products.SLOW:  # else the steps multiply in float32
            assert (our.double() - exact).norm() <= 1.2 * (their.double() - exact).norm(), name
        assert (our.double() - exact).norm() <= 0.01 * exact.norm(), name


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"soft_cap": -1.0}, ArgumentError, "soft_cap above 0"),
        ({"soft_cap": 0.0}, ArgumentError, "soft_cap above 0"),
        ({"soft_cap": float("nan")}, ArgumentError, "soft_cap above 0"),
        ({"noise": torch.ones(4, 4)}, ShapeError, "noise"),
        ({"noise": torch.ones(1, 2, 4, 4).bfloat16()}, DTypeError, "noise"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    x = heads(torch.bfloat16, 1, 4, 2, 8)
    with pytest.raises(error, match=text):
        attention(x, x, x, **options)


@pytest.mark.skipif(ISAS[-1] != "avx512_bf16", reason="needs a CPU that multiplies bfloat16")
def test_opcheck_with_options() -> None:
    x = heads(torch.bfloat16, 1, 9, 2, 8)
    arguments = (x, x.detach(), x.detach(), None, torch.rand(1, 2, 9, 9), True, 0.3, 1.5)
    with force_cpu_isa("avx512_bf16"):
        opcheck(torch.ops.burnlike.attention.default, arguments)
        output, *sums = torch.ops.burnlike.attention(*arguments)
        opcheck(
            torch.ops.burnlike.attention_backward.default,
            (torch.ones_like(output), x, *arguments[1:3], output.detach(), *sums, *arguments[3:]),
        )


def test_known_values() -> None:
    # Scores ln(3) and 0: weights 3/4 and 1/4. With values 4 and 8 the output is 5, and its derivative by the first
    # score is 3/4 * (4 - 5).
    key = torch.tensor([1.0, 0.0]).view(1, 1, 2, 1).bfloat16()
    value = torch.tensor([4.0, 8.0]).view(1, 1, 2, 1).bfloat16().requires_grad_()
    query = torch.full((1, 1, 1, 1), 1.0986123).bfloat16().requires_grad_()
    output = attention(query, key, value, scale=1.0)
    output.backward(torch.ones_like(output))
    torch.testing.assert_close(output.item(), 5.0, rtol=0.01, atol=0)
    assert query.grad is not None
    assert value.grad is not None
    torch.testing.assert_close(query.grad.item(), -0.75, rtol=0.01, atol=0)
    torch.testing.assert_close(value.grad.flatten().tolist(), [0.75, 0.25], rtol=0.01, atol=0)


@pytest.mark.parametrize(("dtype", "isa"), WAYS, ids=str)
def test_a_query_that_sees_nothing_gives_zeros(dtype: torch.dtype, isa: str) -> None:
    inputs = [heads(dtype, 1, 6, 2, 8) for _ in range(3)]
    mask = torch.ones(6, 6, dtype=torch.bool)
    mask[2] = False
    with force_cpu_isa(isa):
        output = attention(*inputs, mask)
        output.sum().backward()
    assert (output[:, :, 2] == 0).all()
    assert all(it.grad is not None and it.grad.isfinite().all() for it in inputs)
    assert inputs[0].grad is not None
    assert (inputs[0].grad[:, :, 2] == 0).all()


NOISE = torch.tensor([1.25, 0.0]).repeat(1, 2, 16, 8)
OPTIONS: dict[str, dict[str, Any]] = {"plain": {}, "soft cap": {"soft_cap": 5.0}, "noise": {"noise": NOISE}}


@pytest.mark.parametrize(("dtype", "isa"), [*WAYS, (torch.float32, ISAS[-1])], ids=str)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("hidden", [-1e4, -1e9, "least", -torch.inf])
def test_a_row_without_a_visible_key_has_the_gradients_of_equal_scores(
    dtype: torch.dtype, isa: str, options: dict[str, Any], hidden: float | str
) -> None:
    """With a finite mask, as torch's softmax of scores and mask in float32; with an infinite one all are zero."""
    torch.manual_seed(0)
    least = torch.finfo(dtype).min
    value = least if hidden == "least" else max(hidden, least) if hidden != -torch.inf else hidden
    inputs = [heads(dtype, 1, 16, 2, 16) for _ in range(3)]
    mask = torch.zeros(16, 16, dtype=dtype)
    mask[3], mask[5, 4:] = value, value
    seed = torch.randn(1, 2, 16, 16).to(dtype)
    wide = [it.detach().float().requires_grad_() for it in inputs]
    scores = wide[0] @ wide[1].mT * 0.25
    if "soft_cap" in options:
        scores = 5.0 * (scores / 5.0).tanh()
    blind = (mask == -torch.inf).all(-1, keepdim=True)
    weights = (scores + mask.float().masked_fill(blind, 0.0)).softmax(-1).masked_fill(blind, 0.0)
    output = weights * options.get("noise", 1.0) @ wide[2]
    expected = [output, *torch.autograd.grad(output, wide, seed.float())]
    with force_cpu_isa(isa):
        ours = attention(*inputs, mask, **options)
        found = [ours, *torch.autograd.grad(ours, inputs, seed)]
    for one, other in zip(found, expected, strict=True):
        assert one.isfinite().all()
        tolerance = 2e-5 if dtype == torch.float32 else 2e-2
        # Where scores are -10,000 float32 holds their differences to a thousandth.
        tolerance = max(tolerance, 3e-3) if hidden == -1e4 else tolerance
        torch.testing.assert_close(one.float(), other, rtol=0, atol=tolerance * other.detach().abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_derivatives_of_derivatives(dtype: torch.dtype) -> None:
    inputs = [heads(dtype, 1, 5, 2, 4) for _ in range(3)]
    exact = [it.detach().double().requires_grad_() for it in inputs]

    def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return (query @ key.mT * 0.5).softmax(-1) @ value

    found, expected = [], []
    for function, given, results in ((attention, inputs, found), (plain, exact, expected)):
        grads = torch.autograd.grad(function(*given).square().sum(), given, create_graph=True)
        results += torch.autograd.grad(sum(it.square().sum() for it in grads), given)
    for one, other in zip(found, expected, strict=True):
        tolerance = 0.05 if dtype == torch.bfloat16 else 1e-4
        torch.testing.assert_close(one.double(), other, rtol=0, atol=tolerance * float(other.abs().max()))


@pytest.mark.parametrize("special", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["query", "key", "value"])
def test_special_values_spread_as_in_torch(special: float, place: int) -> None:
    torch.manual_seed(0)
    inputs = [heads(torch.bfloat16, 1, 5, 1, 8) for _ in range(3)]
    with torch.no_grad():
        inputs[place][0, 0, 3, 1] = special
    ours, theirs = (
        torch.autograd.grad(function(*inputs).sum(), inputs) for function in (attention, attention_reference)
    )
    for our, their in zip(ours, theirs, strict=True):
        assert torch.equal(our.isnan(), their.isnan())


@pytest.mark.parametrize(("dtype", "isa"), WAYS, ids=str)
@pytest.mark.parametrize(("batch", "length"), [(1, 40), (1, 300), (9, 150)])
def test_gradients_have_the_same_bits_with_any_number_of_threads(
    dtype: torch.dtype, isa: str, batch: int, length: int
) -> None:
    inputs = [heads(dtype, batch, length, 2, 32) for _ in range(3)]
    threads = torch.get_num_threads()
    with force_cpu_isa(isa):
        output = attention(*inputs, causal=True)
        seed = torch.randn_like(output)
        expected = torch.autograd.grad(output, inputs, seed, retain_graph=True)
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            try:
                actual = torch.autograd.grad(output, inputs, seed, retain_graph=True)
            finally:
                torch.set_num_threads(threads)
            torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_keeps_what_the_docstring_says() -> None:
    query, key, value = (heads(torch.bfloat16, 2, 32, 4, 16) for _ in range(3))
    sizes: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda it: sizes.append(it.nbytes) or it, lambda it: it):
        output = attention(query, key, value, causal=True)
    numbers = 2 if native_status().isa == "avx512_bf16" else 1
    assert sum(sizes) == 4 * output.nbytes + numbers * 4 * 2 * 4 * 32


def test_torch_runs_where_the_op_is_not_faster_or_not_needed() -> None:
    query, key, value = (heads(torch.bfloat16, 1, 8, 2, 8) for _ in range(3))
    bias = torch.randn(8, 8).bfloat16().requires_grad_()
    before = native_status().calls["attention"]
    with torch.no_grad():
        attention(query, key, value)  # few queries
        attention(*(it.half() for it in (query, key, value)))
        attention(*(it.float() for it in (query, key, value)))
    attention(query, key, value, bias).sum().backward()  # a derivative of the mask
    assert bias.grad is not None
    attention(query[:, :, :0], key, value).sum().backward()
    attention(*(it.to("meta") for it in (query, key, value)))
    torch.func.grad(lambda it: attention(it, key, value).sum())(query)
    assert native_status().calls["attention"] == before


def test_is_cast_by_autocast_as_attention_of_torch() -> None:
    inputs = [heads(torch.float32, 1, 8, 2, 8) for _ in range(3)]
    with torch.autocast("cpu", torch.bfloat16), calls_of_the_op(1):
        output = attention(*inputs)
        output.sum().backward()
        expected = F.scaled_dot_product_attention(*inputs)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    assert inputs[0].grad is not None
    assert inputs[0].grad.dtype == torch.float32


# Inductor itself still uses what torch deprecates.
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("dynamic", [True, *slow(False)])
def test_compiles_as_one_graph(dynamic: bool) -> None:
    torch.compiler.reset()
    compiled = torch.compile(attention, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for length in (6, 9):
        inputs = [heads(torch.bfloat16, 2, length, 2, 8) for _ in range(3)]
        mask = torch.rand(length, length) < 0.9
        with calls_of_the_op(1):
            output = compiled(*inputs, mask)
            actual = torch.autograd.grad(output.sum(), inputs)
        expected = attention(*inputs, mask)
        torch.testing.assert_close(output, expected, rtol=0, atol=0)
        torch.testing.assert_close(actual, torch.autograd.grad(expected.sum(), inputs), rtol=0, atol=0)


def test_compiles_while_a_thread_imports() -> None:
    # As the thread that writes a checkpoint does while the validation after it is compiled.
    compiled = threading.Event()
    names = [f"imported_{number}" for number in range(100_000)]

    def imports() -> None:
        for name in names:
            if compiled.wait(1e-5):
                return
            sys.modules[name] = sys

    interval, importer = sys.getswitchinterval(), threading.Thread(target=imports)
    sys.setswitchinterval(1e-6)
    importer.start()
    try:
        torch.compiler.reset()
        inputs = [heads(torch.float32, 1, 3, 2, 4) for _ in range(3)]
        output = torch.compile(attention, fullgraph=True, backend="eager")(*inputs)
    finally:
        compiled.set()
        importer.join()
        sys.setswitchinterval(interval)
        for name in names:
            sys.modules.pop(name, None)
    torch.testing.assert_close(output, F.scaled_dot_product_attention(*inputs))


def test_an_exported_program_has_the_attention_of_torch() -> None:
    class Attend(torch.nn.Module):
        def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return attention(query, key, value, causal=True)

    inputs = tuple(heads(torch.bfloat16, 1, 8, 2, 8) for _ in range(3))
    program = torch.export.export(Attend(), inputs)
    assert "scaled_dot_product_attention" in program.graph_module.code
    assert "burnlike" not in program.graph_module.code


def test_wrong_arguments_are_named() -> None:
    query, key = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 5, 8)
    with pytest.raises(ShapeError, match=r"query of shape \[batch, heads, queries, d_head\], got \[4, 6, 8\]"):
        attention(query[0], key, key)
    with pytest.raises(ShapeError, match=r"key of shape \[batch, 4 or a divisor, keys, d_head\], got \[2, 3, 5, 8\]"):
        attention(query, torch.randn(2, 3, 5, 8), key)
    with pytest.raises(ShapeError, match=r"key of shape \[2, 2, 5, 8\], got \[2, 2, 5, 7\]"):
        attention(query, key[..., :7], key)
    with pytest.raises(ShapeError, match=r"value of shape \[2, 2, 5, 8\], got \[2, 2, 4, 8\]"):
        attention(query, key, key[:, :, :4])
    with pytest.raises(ShapeError, match=r"mask that broadcasts to \[2, 4, 6, 5\], got \[6, 4\]"):
        attention(query, key, key, torch.ones(6, 4, dtype=torch.bool))
    with pytest.raises(DTypeError, match="mask of dtype float32 or bool, got float64"):
        attention(query, key, key, torch.ones(6, 5, dtype=torch.float64))
    with pytest.raises(ArgumentError, match="got both"):
        attention(query, key, key, torch.ones(6, 5, dtype=torch.bool), causal=True)
