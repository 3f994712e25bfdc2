"""Drawn cases of data on the host and of texts, and edges of the tensor API: nothing in it, or what does not fit."""

from collections.abc import Iterator
from typing import Any

import torch

from .running import DTYPES
from .tensor_cases import Case, Draw
from .tensor_draws import KINDS, group


@group
def _host(draw: Draw) -> Iterator[Case]:
    random = draw.random
    nan, inf = float("nan"), float("inf")
    for kind in KINDS:
        x = draw.of(kind, *draw.shape())
        yield from (Case(op, [x], kind) for op in ("to_data", "into_data", "try_into_data"))
        yield Case("into_scalar", [draw.of(kind, 1, 1)], kind)
        yield Case("try_into_scalar", [draw.of(kind, 2)], kind)
        for target in ("f64", "f32", "f16", "i64", "i32", "u8", "bool") if kind != "Bool" else ("i64", "f32"):
            of = draw.ints(3, low=0).float() if kind == "Float" else draw.ints(3, low=0) if kind == "Int" else x
            yield from (Case(f"{op}_data_dtype", [of, DTYPES[target]], kind) for op in ("to", "into", "try_to"))
            yield Case("data.convert_dtype", [of, DTYPES[target]], kind)
        yield Case("display", [x], kind)
    for numbers in ([nan], [inf], [300.0], [-1.0], [1e19], [2.7]):
        yield from (Case("to_data_dtype", [torch.tensor(numbers), DTYPES[it]]) for it in ("u8", "i32", "i64"))
    yield from (Case("display", [draw.floats(2, 3), digits]) for digits in (0, 1, 3))
    yield Case("display", [draw.floats(3, 2, edges=True)])
    yield Case("display", [torch.tensor([2.67578125, 0.1, 65504.0, 1e-5], dtype=torch.float16)])
    yield Case("display", [torch.tensor([0.1, 1 / 3, 1e16, 1e-7, 123456789.0], dtype=torch.float32)])
    yield Case("display", [draw.floats(5, dtype=random.choice([torch.float16, torch.bfloat16, torch.float64]))])
    yield Case("display", [torch.arange(1200), None], "Int")
    x = torch.tensor([1.0, nan, inf])
    same, near = torch.tensor([1.0, 2.0, inf]), torch.tensor([1.004, 2.0, inf])
    for left, right in ((x, x), (same, same), (same, near), (same, same.double()), (same, same.reshape(1, 3))):
        yield Case("data.equal", [left, right])
        yield from (Case("data.assert_eq", [left, right, strict]) for strict in (True, False))
    tolerances: list[list[Any]] = [["default"], ["balanced"], ["strict"], ["permissive"]]
    tolerances += [["rel_abs", 0.01, 1e-6], ["relative", 0.01], ["absolute", 0.01], ["set_relative", 1e-3]]
    tolerances += [["set_absolute", 1.1], ["rel_abs", 1.5, 0.0], ["rel_abs", 0.1, -1.0]]
    sizes = ("half", "single", "double")
    tolerances += [[f"set_{it}_precision_relative", 0.3] for it in sizes]
    tolerances += [[f"set_{it}_precision_absolute", 1.1] for it in sizes]
    for tolerance in tolerances:
        for dtype in (torch.float32, torch.float64, torch.float16):
            yield Case("data.assert_approx_eq", [same.to(dtype), near.to(dtype), *tolerance])
            yield Case(
                "data.assert_approx_eq", [torch.zeros(1, dtype=dtype), torch.tensor([1e-5], dtype=dtype), *tolerance]
            )
        yield Case("data.assert_approx_eq", [x, x, *tolerance])
        left = round(random.gauss(0, 2), 3)
        for right in (left, left * 1.004, left + 0.009, nan, inf):
            yield from (Case("tolerance.approx_eq", [left, right, dtype, *tolerance]) for dtype in ("f32", "f64"))
    for low, high in ((1.0, 3.0), (1.0, 2.0), (1.5, 3.0)):
        yield Case("data.assert_within_range", [torch.tensor([1.0, 2.0]), low, high])
        yield Case("data.assert_within_range_inclusive", [torch.tensor([1.0, 2.0]), low, high])
    yield Case("data.full", [[2, 2], 1.5, torch.float32])
    yield from (Case("data.json", [draw.of(kind, 2, 2)], kind) for kind in KINDS)
    texts = (
        "1..5",
        "..",
        "..3",
        "2..",
        "..=-2",
        "1..=3",
        "3",
        "0",
        "-2",
        "0..10;2",
        "1..5;-2",
        "..;-1",
        "4..2",
        "-3..-1",
    )
    for text in (*texts, "x", "1..y", "", "1..2;0", "1...2"):
        yield Case("slice.parse", [text, 6])
    yield Case("transaction", [draw.floats(2, 2), draw.ints(3)])


@group
def _edges(draw: Draw) -> Iterator[Case]:
    """Tensors without elements, dimensions that are none, operands that do not fit."""
    for kind in KINDS:
        for shape in ([0], [2, 0], [0, 3]):
            x = draw.of(kind, *shape)
            yield from (Case(op, [x], kind) for op in ("transpose", "any", "all", "to_data", "display"))
            yield from (Case(op, [x, 0], kind) for op in ("any_dim", "all_dim", "iter_dim"))
            yield Case("reshape", [x, [0]], kind)
            yield Case("cat", [[x, x], 0], kind)
            if kind != "Bool":
                yield from (Case(op, [x], kind) for op in ("sum", "prod", "neg", "abs"))
                yield from (Case(op, [x, -1], kind) for op in ("sum_dim", "prod_dim", "cumsum", "sort", "argsort"))
            if kind == "Float":
                yield from (Case(op, [x, -1]) for op in ("mean_dim", "var", "max_dim", "argmax"))
                yield from (Case(f"activation.{name}", [x, -1]) for name in ("softmax", "log_softmax"))
                yield from (Case(f"activation.{name}", [x]) for name in ("relu", "gelu"))
        x = draw.of(kind, 2, 3)
        for dim in (2, -3, 5):
            calls: list[list[Any]] = [["any_dim"], ["all_dim"], ["iter_dim"], ["squeeze_dim"]]
            if kind != "Bool":
                calls += [["sum_dim"], ["mean_dim"], ["cumsum"], ["sort"], ["argmax"], ["max_dim"], ["prod_dim"]]
            yield from (Case(op, [x, dim, *rest], kind) for op, *rest in calls)
            yield Case("swap_dims", [x, 0, dim], kind)
            yield Case("select", [x, dim, torch.tensor([0])], kind)
        yield Case("select", [x, 1, torch.tensor([0, 3])], kind)
        yield Case("gather", [x, 1, torch.tensor([[0], [7]])], kind)
        yield Case("mask_where", [x, draw.bools(2, 2), draw.of(kind, 2, 3)], kind)
        yield Case("cat", [[x, draw.of(kind, 2, 2)], 0], kind)
        yield Case("stack", [[x, draw.of(kind, 2, 2)], 0], kind, rank=3)
        yield Case("chunk", [x, 0, 0], kind)
        yield Case("split", [x, 0, 0], kind)
        yield Case("narrow", [x, 1, 2, 2], kind)
        yield Case("equal", [x, draw.of(kind, 2, 2)], kind)
    yield Case("div", [draw.ints(2), torch.tensor([0, 1])], "Int")
    yield Case("remainder", [draw.ints(2), torch.tensor([0, 1])], "Int")
    yield Case("matmul", [draw.floats(2, 3), draw.floats(4, 2)])
    yield Case("module.conv2d", [draw.floats(1, 3, 4, 4), draw.floats(2, 2, 3, 3), None, {**_PLAIN, "groups": 1}])
    yield Case("linalg.det", [draw.floats(2, 3, 2)], rank=1)
    yield Case("signal.rfft", [draw.floats(2, 6), 1, None])
    yield Case("einsum", ["ij,jk->il", [draw.floats(2, 2), draw.floats(2, 2)]])
    # Burn's own flaws: see `tensor_flaws.py`.
    yield Case("activation.selu", [torch.tensor([100.0])], grad=True)
    yield Case("powf_scalar", [torch.tensor([2.0]), 1e30])
    yield from (Case(op, [torch.tensor([3.4e38])]) for op in ("acosh", "asinh"))
    yield Case("activation.gelu_approximate", [torch.tensor([3.4e38, 1.0])])
    yield Case("activation.gelu_approximate", [torch.tensor([-3.34375, -1.8056640625], dtype=torch.float16)])
    for kind in ("Float", "Int"):
        yield Case("matmul", [draw.of(kind, 0, 2, 3), draw.of(kind, 1, 3, 2)], kind)
    yield Case("clamp_min", [draw.floats(2), float("nan")], grad=True)
    yield Case("clamp", [draw.floats(2), 2.0, -2.0])
    yield Case("powi_scalar", [torch.tensor([5, 3]), -1], "Int")
    yield Case("mean", [torch.full((3,), 100, dtype=torch.int8)], "Int")
    yield Case("argtopk", [torch.tensor([1.0, 2.0]), 2, 0])
    yield Case("div", [torch.tensor([-(2**63)]), torch.tensor([-1])], "Int")
    yield Case("activation.gelu", [torch.tensor([float("inf"), 1.0])])
    yield Case("module.interpolate", [draw.floats(1, 1, 2, 2), [3, 3], "NearestExact", False])
    tiny = torch.tensor([1e-5], dtype=torch.float16)
    yield Case("data.assert_approx_eq", [torch.zeros(1, dtype=torch.float16), tiny, "strict"])
    options = {"stride": [3], "padding": [0], "dilation": [1], "groups": 2, "padding_end": None}
    yield Case("module.conv1d", [draw.floats(1, 4, 8), draw.floats(2, 2, 3), None, options], grad=True)


_PLAIN = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "padding_end": None}
