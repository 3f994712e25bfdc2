"""Drawn arguments for every method and function of the tensor API, by group."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from .running import DTYPES, random_of
from .tensor_cases import Case, Draw

REPEATS = 8
GROUPS: dict[str, Callable[[Draw], Iterator[Case]]] = {}
NUMERIC = ("Float", "Int")
KINDS = (*NUMERIC, "Bool")


def group(function: Callable[[Draw], Iterator[Case]]) -> Callable[[Draw], Iterator[Case]]:
    """Register what draws the cases of a group."""
    GROUPS[function.__name__.strip("_")] = function
    return function


def cases_of(name: str) -> list[Case]:
    """The cases of a group, drawn several times."""
    draw = Draw(random_of(f"tensors {name}"))
    return [case for _ in range(REPEATS) for case in GROUPS[name](draw)]


@group
def _creations(draw: Draw) -> Iterator[Case]:
    for kind in KINDS:
        shape = draw.shape()
        x = draw.of(kind, *shape)
        for op in ("empty", "zeros", "ones"):
            yield Case(op, [shape], kind)
        yield Case("full", [shape, draw.number(kind)], kind)
        for op in ("empty_like", "zeros_like", "ones_like", "from_data"):
            yield Case(op, [x], kind)
        yield Case("full_like", [x, draw.number(kind)], kind)
    for dtype, value in (
        ("f16", 1e9),
        ("f16", -1e9),
        ("bf16", 1e39),
        ("f32", 1e39),
        ("f64", 1e300),
        ("f32", float("nan")),
    ):
        yield Case("full", [[2], value], dtype=dtype)
        yield Case("full_like", [draw.floats(2, dtype=DTYPES[dtype]), value])
    for dtype in ("i8", "u8", "i16", "i32"):
        yield Case("zeros", [[2, 2]], "Int", dtype=dtype)
        yield Case("full", [[2, 2], 7], "Int", dtype=dtype)
    start = draw.random.randint(-5, 5)
    yield Case("arange", [start, start + draw.random.randint(1, 6)], "Int")
    yield Case("arange_step", [start, start + draw.random.randint(1, 9), draw.random.randint(1, 4)], "Int")
    yield Case("from_floats", [draw.floats(2, 3)])
    yield Case("from_ints", [draw.ints(2, 3)], "Int")
    yield Case("from_bool", [draw.bools(2, 3)], "Bool")
    yield Case("cartesian_grid", [draw.shape(1, 2)], "Int")
    for kind in NUMERIC:
        yield Case("eye", [draw.random.randint(1, 4)], kind)
    for op in ("triu_mask", "tril_mask", "diag_mask"):
        yield Case(op, [draw.shape(2, 2), draw.random.randint(-2, 2)], "Bool")


@group
def _shapes(draw: Draw) -> Iterator[Case]:
    random = draw.random
    for kind in KINDS:
        grad = kind == "Float"
        shape = draw.shape(2, 3)
        x, rank = draw.of(kind, *shape), len(shape)

        def case(
            op: str, *args: Any, of: Any = x, kind: str = kind, grad: bool = grad, rank: int | None = None
        ) -> Case:
            return Case(op, [of, *args], kind, grad, rank=rank)

        yield from (case(op) for op in ("transpose", "t", "dims", "shape", "rank", "dtype"))
        yield case("transpose", of=draw.of(kind, 3))
        yield case("t", of=draw.of(kind, 3))
        yield case("swap_dims", draw.dim(rank), draw.dim(rank))
        yield case("permute", random.sample(range(rank), rank))
        yield case("permute", [0] * rank)
        yield case("movedim", draw.dim(rank), draw.dim(rank))
        yield case("movedim", random.sample(range(rank), 2), random.sample(range(rank), 2))
        yield case("flip", random.sample(range(rank), random.randint(1, rank)))
        yield case("flatten", 0, -1)
        yield case("flatten", random.randrange(rank), rank - 1)
        yield case("reshape", [-1])
        yield case("reshape", [*reversed(shape)])
        yield case("reshape", [0, -1])
        yield case("reshape", [shape[0] + 1, -1])
        ones = draw.of(kind, 1, 3, 1)
        yield case("squeeze", of=ones)
        yield case("squeeze_dim", random.choice([0, 2, -1, 1]), of=ones, rank=2)
        for dims in ([0], [0, 2], [-1], [0, 0], [0, -3], [0, -1, 2], []):
            yield case("squeeze_dims", dims, of=ones, rank=3 - len({it % 3 for it in dims}) if dims else 1)
        yield case("unsqueeze", random.randint(rank, 4))
        yield case("unsqueeze_dim", draw.dim(rank + 1))
        yield case("unsqueeze_dims", [draw.dim(rank + 1)])
        yield case("expand", [4, 3, 2], of=draw.of(kind, 1, 3, 1))
        yield case("expand", [2, -1, -1, 2], of=draw.of(kind, 1, 3, 1))
        yield case("expand", [2, 4], of=draw.of(kind, 1, 3), rank=2)
        yield case("repeat_dim", draw.dim(rank), random.randint(1, 3))
        yield case("repeat", [random.randint(1, 2) for _ in shape])
        yield case("roll_dim", random.randint(-7, 7), draw.dim(rank))
        yield case("roll", [random.randint(-7, 7), 1], random.sample(range(rank), 2))
        yield case("unfold", draw.dim(rank), 1, random.randint(1, 3))
        yield case("diag", of=draw.of(kind, 3, random.randint(2, 4)))
        yield case("diag", of=draw.of(kind, 2, 3, 3))


@group
def _indexing(draw: Draw) -> Iterator[Case]:
    random = draw.random

    def a_slice(size: int) -> slice:
        return slice(
            random.randint(-size, size),
            random.choice([None, random.randint(-size, size + 2)]),
            random.choice([1, 1, 2, -1, -2]),
        )

    for kind in KINDS:
        grad = kind == "Float"
        shape = [random.randint(2, 4) for _ in range(random.randint(2, 3))]
        x, rank = draw.of(kind, *shape), len(shape)

        def case(
            op: str, *args: Any, of: Any = x, kind: str = kind, grad: bool = grad, rank: int | None = None
        ) -> Case:
            return Case(op, [of, *args], kind, grad, rank=rank)

        for _ in range(4):
            yield case("slice", [a_slice(size) for size in shape[: random.randint(1, rank)]])
        yield case("slice_dim", 1, a_slice(shape[1]))
        yield case("slice_fill", [slice(0, 2), slice(1, None, -1)], draw.number(kind))
        yield case("slice_assign", [slice(0, 2)], draw.of(kind, 2, *shape[1:]))
        yield case("slice_assign", [slice(0, 2)], draw.of(kind, 1, *shape[1:]))
        dim = random.randrange(rank)
        indices = draw.ints(3, low=0, high=shape[dim] - 1)
        yield case("select", dim, indices)
        yield case("select_dim", dim, random.randint(-shape[dim], shape[dim] - 1), rank=rank - 1)
        yield case("take", dim, draw.ints(2, 2, low=0, high=shape[dim] - 1) if rank < 3 else indices)
        yield case("narrow", dim, 0, random.randint(1, shape[dim]))
        yield case("narrow", dim, 1, shape[dim])
        same = draw.ints(*shape, low=0, high=shape[dim] - 1)
        yield case("gather", dim, same)
        for update in ("Assign", "Add", "Mul", "Min", "Max") if kind != "Bool" else ("Add",):
            # Burn defines one index twice for sums alone.
            rows = indices if update == "Add" else indices[:1]
            values = draw.of(kind, *shape[:dim], len(rows), *shape[dim + 1 :])
            yield case("select_assign", dim, rows, values, update)
            spread = torch.arange(shape[dim]).reshape([-1 if it == dim else 1 for it in range(rank)])
            places = same if update == "Add" else spread.expand(shape).contiguous()
            yield case("scatter", dim, places, draw.of(kind, *shape), update)
            if kind != "Bool":
                cells = draw.ints(3 if update == "Add" else 1, 1, low=0, high=shape[0] - 1)
                yield case("scatter_nd", cells, draw.of(kind, len(cells), *shape[1:]), update)
        if kind != "Bool":
            yield case("gather_nd", draw.ints(2, 2, low=0, high=1))
        mask = draw.bools(*shape)
        yield case("mask_where", mask, draw.of(kind, *shape))
        yield case("mask_fill", mask, draw.number(kind))
        yield case("mask_select", mask)
        several = [draw.of(kind, *shape) for _ in range(random.randint(1, 3))]
        yield Case("cat", [several, dim], kind, grad)
        yield Case("stack", [several, dim], kind, grad, rank=rank + 1)
        yield case("chunk", random.randint(1, 3), dim)
        yield case("split", random.randint(1, 3), dim)
        yield case("split_with_sizes", [1, shape[dim] - 1], dim)
        yield case("split_with_sizes", [1, shape[dim]], dim)
        yield case("iter_dim", dim)
    for dtype, value in (("f16", -1e9), ("bf16", 1e39), ("f32", 1e39)):
        x = draw.floats(3, dtype=DTYPES[dtype])
        yield Case("mask_fill", [x, draw.bools(3), value])
        yield Case("slice_fill", [x, [slice(0, 2)], value])


@group
def _comparisons(draw: Draw) -> Iterator[Case]:
    for kind in KINDS:
        shape = draw.shape()
        x = draw.floats(*shape, edges=True) if kind == "Float" else draw.of(kind, *shape)
        y = torch.where(draw.bools(*shape), x, draw.of(kind, *shape))
        number = x.flatten()[0].item()
        for op in ("equal", "not_equal"):
            yield Case(op, [x, y], kind)
            yield from (Case(f"{op}_{form}", [x, number], kind) for form in ("elem", "scalar"))
        yield from (Case(op, [x], kind) for op in ("any", "all"))
        yield from (Case(op, [x, draw.dim(len(shape))], kind) for op in ("any_dim", "all_dim"))
        if kind != "Bool":
            for op in ("greater", "greater_equal", "lower", "lower_equal"):
                yield Case(op, [x, y], kind)
                yield from (Case(f"{op}_{form}", [x, number], kind) for form in ("elem", "scalar"))
    x, y = draw.floats(2, 3, edges=True), draw.floats(2, 3, edges=True)
    yield from (Case(op, [x]) for op in ("is_nan", "is_inf", "is_finite", "contains_nan"))
    yield Case("is_close", [x, y])
    yield Case("is_close", [x, x + 1e-4, 1e-3, 1e-6])
    yield Case("all_close", [x, x])
    yield Case("all_close", [y, y + 0.1, 0.5, 0.5])
    shape = draw.shape(1, 2)
    left, right = draw.bools(*shape), draw.bools(*shape)
    yield from (Case(op, [left, right], "Bool") for op in ("bool_and", "bool_or", "bool_xor"))
    yield from (Case(op, [left], "Bool") for op in ("bool_not", "int", "float", "nonzero", "argwhere"))


@group
def _arithmetic(draw: Draw) -> Iterator[Case]:
    random = draw.random
    for kind in NUMERIC:
        shape = draw.shape()
        dtypes = (
            [torch.float32, torch.float64, torch.float16]
            if kind == "Float"
            else [torch.int64, torch.int32, torch.int8, torch.uint8]
        )
        for dtype in dtypes:
            grad = dtype is torch.float32
            low = 0 if dtype is torch.uint8 else -9
            x = draw.floats(*shape, dtype=dtype) if kind == "Float" else draw.ints(*shape, low=low, dtype=dtype)
            y = draw.floats(*shape, dtype=dtype) if kind == "Float" else draw.ints(*shape, low=1, dtype=dtype)
            for op in ("add", "sub", "mul", "div", "remainder"):
                yield Case(op, [x, y], kind, grad and op != "remainder")
                number = draw.number(kind) if dtype is not torch.uint8 else random.randint(1, 5)
                yield Case(f"{op}_scalar", [x, number or 1], kind, grad)
            yield from (
                Case(op, [x], kind, grad) for op in ("neg", "sign", "abs", "square") if dtype is not torch.uint8
            )
            yield from (Case(op, [x, y], kind) for op in ("max_pair", "min_pair"))
            yield Case("powi_scalar", [x, random.randint(0, 4)], kind, grad)
            yield Case("clamp", [x, 1, 3] if kind == "Int" else [x, -0.7, 0.9], kind, grad)
            yield from (Case(op, [x, 2 if kind == "Int" else 0.3], kind, grad) for op in ("clamp_min", "clamp_max"))
        yield Case("add", [draw.of(kind, 2, 1), draw.of(kind, 1, 3)], kind, kind == "Float")
        yield Case("add", [draw.of(kind, 2), draw.of(kind, 3)], kind)
        yield Case(
            "powi",
            [draw.of(kind, 4), draw.ints(4, low=0, high=4).to(torch.int64 if kind == "Int" else torch.float32)],
            kind,
        )
        yield Case("matmul", [draw.of(kind, 2, 3), draw.of(kind, 3, 4)], kind, kind == "Float")
        yield Case("matmul", [draw.of(kind, 2, 2, 3), draw.of(kind, 1, 3, 2)], kind)
        yield Case("matmul", [draw.of(kind, 2, 3), draw.of(kind, 2, 3)], kind)
        yield Case("dot", [draw.of(kind, 4), draw.of(kind, 4)], kind)
        yield Case("einsum", ["ij,jk->ik", [draw.of(kind, 2, 3), draw.of(kind, 3, 2)]], kind)
        yield Case("einsum", ["ij,ij", [draw.of(kind, 2, 3), draw.of(kind, 2, 3)]], kind)
    huge = torch.tensor([2**40 + 1, 3, -(2**63), 2**63 - 1])
    for op in ("add", "sub", "mul", "div"):
        yield Case(op, [huge, torch.tensor([2**20 + 1, 2**50 + 1, -1, -1])], "Int")
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
        info = torch.iinfo(dtype)
        x = torch.tensor([info.min, info.max, 7, info.min], dtype=dtype)
        yield Case("div", [x, torch.tensor([-1, -1, -1, 2], dtype=dtype)], "Int")
        yield Case("div_scalar", [x, -1], "Int")
        yield Case("abs", [x], "Int")
    yield Case("matmul", [torch.tensor([[2**40 + 1, 3]]), torch.tensor([[2**20 + 1], [2**50 + 1]])], "Int")
    yield from (Case("powi_scalar", [torch.tensor([3, 7, 5]), 39], "Int") for _ in "1")
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8):
        x = torch.tensor([1, 5, 100, *([-8] if dtype.is_signed else [])], dtype=dtype)
        bits = torch.iinfo(dtype).bits
        for amount in (0, 1, bits - 1, bits, bits + 3, *([-1] if dtype.is_signed else [])):
            for side in ("left", "right"):
                yield Case(f"bitwise_{side}_shift", [x, torch.full_like(x, amount)], "Int")
                yield Case(f"bitwise_{side}_shift_scalar", [x, amount], "Int")
        y = draw.ints(len(x), low=0, dtype=dtype)
        for op in ("and", "or", "xor"):
            yield Case(f"bitwise_{op}", [x, y], "Int")
            yield Case(f"bitwise_{op}_scalar", [x, 5], "Int")
        yield Case("bitwise_not", [x], "Int")
    for dtype, big in (("f16", 1e9), ("bf16", 1e39), ("f32", 1e39)):
        x = draw.floats(3, dtype=DTYPES[dtype])
        yield Case("clamp", [x, -big, big])
        yield Case("clamp_min", [x, -big])
        yield Case("clamp_max", [x, big])
        yield Case("pad", [x, [[1, 0]], -big])
        yield Case("add_scalar", [x, big])
        yield Case("one_hot_fill", [torch.tensor([0.0, 1.0], dtype=DTYPES[dtype]), 2, 1e9, -1e9, -1])


@group
def _floats(draw: Draw) -> Iterator[Case]:
    unary = (
        *("exp", "log", "log1p", "sqrt", "cos", "sin", "tan", "cosh", "sinh", "tanh", "acos", "acosh", "asin", "asinh"),
        *("atan", "atanh", "erf", "recip", "deg2rad", "rad2deg", "round", "floor", "ceil", "trunc", "square"),
    )
    for op in unary:
        shape = draw.shape()
        yield Case(op, [draw.floats(*shape, scale=0.8).abs() + (1.01 if op == "acosh" else 0.01)], grad=True)
        yield Case(op, [draw.floats(*shape, edges=True)])
        yield Case(op, [draw.floats(*shape, dtype=torch.float16)])
    shape = draw.shape()
    x, y = draw.floats(*shape), draw.floats(*shape).abs() + 0.1
    yield from (Case(op, [x, y], grad=op in ("atan2", "hypot")) for op in ("atan2", "hypot", "fmod"))
    yield Case("powf", [y, x], grad=True)
    yield Case("powf_scalar", [y, draw.number("Float")], grad=True)
    yield Case("powf_scalar", [x, 2.0], grad=True)
    yield Case("fmod_scalar", [x, 1.5], grad=True)
    yield Case("detach", [x])
    edges = [-1.5, 300.0, float("nan"), float("inf"), float("-inf"), 3e9, -3e9, 1e19, 1.9e19, -1e19, 254.9, -0.9]
    for source in ("f32", "f64", "f16", "bf16"):
        inner = torch.tensor(edges, dtype=torch.float64).to(DTYPES[source])
        yield Case("int", [inner])
        yield from (Case("cast", [inner, target]) for target in ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"))
        yield from (Case("cast", [inner, target]) for target in ("f64", "f32", "f16", "bf16"))
    whole = torch.tensor([0, 1, -1, 300, 2**31, -(2**40)])
    yield Case("float", [whole], "Int")
    yield from (Case("cast", [whole, target], "Int") for target in ("i32", "i16", "i8", "u8", "f32", "f64"))
    yield from (Case("cast", [draw.bools(3), target], "Bool") for target in ("i64", "u8", "f32"))
    for kind in NUMERIC:
        yield Case("bool", [draw.of(kind, 3)], kind)
    rank = len(shape)
    for op in ("var", "var_bias", "var_mean", "var_mean_bias", "median", "median_with_indices"):
        yield Case(op, [draw.floats(*[size + 1 for size in shape]), draw.dim(rank)], grad=op.startswith("var"))
    yield Case("var_mean", [torch.tensor([float("inf"), 1.0, 2.0]), 0])
    yield Case("var_mean_bias", [torch.tensor([float("-inf"), 1.0, 2.0]), 0])
    yield Case("cov", [draw.floats(3, 4), 1, 1])
    yield Case("cross", [draw.floats(2, 3), draw.floats(2, 3), 1], grad=True)
    for padding in ("Zeros", "Border", "Reflection"):
        yield Case(
            "grid_sample_2d", [draw.floats(1, 2, 3, 4), draw.floats(1, 2, 2, 2, scale=0.7), "Bilinear", padding, True]
        )


@group
def _reductions(draw: Draw) -> Iterator[Case]:
    random = draw.random
    for kind in NUMERIC:
        shape = draw.shape()
        rank, grad = len(shape), kind == "Float"
        count = torch.Size(shape).numel()
        numbers = torch.tensor(random.sample(range(-50, 50), count)).reshape(shape)  # no two equal
        x = numbers.float() / 8 if kind == "Float" else numbers
        small = draw.of(kind, *shape)
        for op in ("sum", "mean", "prod"):
            yield Case(op, [small], kind, grad)
            yield Case(f"{op}_dim", [small, draw.dim(rank)], kind, grad)
            for dims in ([0], [0, -1], [0, 0], [0, -rank], []):
                yield Case(f"{op}_dims", [small, dims], kind)
        yield Case("sum_dims_squeeze", [draw.of(kind, 2, 3, 2), [0]], kind, grad)
        yield Case("sum_dims_squeeze", [draw.of(kind, 2, 3, 2), random.choice([[0, 0], [0, -3], [2, -1]])], kind)
        yield Case("sum_dims_squeeze", [draw.of(kind, 2, 3, 2), [0, 2]], kind)
        for op in ("max", "min", "max_abs"):
            yield Case(op, [x], kind, grad)
            yield Case(f"{op}_dim", [x, draw.dim(rank)], kind, grad)
            for dims in ([0], [0, -1], [0, 0], []):
                yield Case(f"{op}_dims", [x, dims], kind)
        yield from (Case(f"{op}_dim_with_indices", [x, draw.dim(rank)], kind) for op in ("max", "min"))
        for op in ("argmax", "argmin", "argsort", "argsort_descending", "sort", "sort_descending"):
            yield Case(op, [x, draw.dim(rank)], kind)
        yield from (Case(f"sort{way}_with_indices", [x, draw.dim(rank)], kind) for way in ("", "_descending"))
        dim = draw.dim(rank)
        for op in ("topk", "topk_with_indices", "argtopk"):
            yield Case(op, [x, random.randint(1, max(1, shape[dim] - (op == "argtopk"))), dim], kind)
        for op in ("cumsum", "cumprod", "cummin", "cummax"):
            yield Case(op, [small, draw.dim(rank)], kind, grad and op in ("cumsum", "cumprod"))
        matrix = draw.of(kind, 3, random.randint(2, 4))
        yield from (Case(op, [matrix, random.randint(-3, 3)], kind, grad) for op in ("triu", "tril"))
        yield Case("pad", [matrix, [[1, 0], [0, 2]], draw.number(kind)], kind, grad)
        yield from (Case("pad", [matrix, [[1, 1]], mode], kind, grad) for mode in ("Reflect", "Edge"))
        classes = draw.ints(3, low=0, high=3)
        yield Case("one_hot", [classes if kind == "Int" else classes.float(), 4], kind, rank=2)
        yield Case("one_hot_fill", [classes if kind == "Int" else classes.float(), 4, 5.0, -1.0, -1], kind, rank=2)
    for dtype in (torch.uint8, torch.int8, torch.int16):
        row = torch.zeros(640, dtype=dtype)
        row[600] = 100
        yield from (Case(op, [row, 0], "Int") for op in ("argmax", "max_dim_with_indices"))
        yield Case("argtopk", [row, 1, 0], "Int")
    edges = draw.floats(6, edges=True)
    yield from (
        Case(op, [edges, 0]) for op in ("max_dim", "min_dim", "sum_dim", "mean_dim", "sort", "cummax", "argmax")
    )


@group
def _activations(draw: Draw) -> Iterator[Case]:
    numbers: dict[str, list[list[Any]]] = {
        **{key: [[]] for key in ("relu", "gelu", "gelu_approximate", "sigmoid", "log_sigmoid", "silu", "hard_swish")},
        **{key: [[]] for key in ("mish", "selu", "softsign", "tanh", "relu6", "tanhshrink")},
        **{key: [[-1], [0]] for key in ("softmax", "softmin", "log_softmax", "quiet_softmax")},
        "leaky_relu": [[0.2], [1e39]],
        "hard_sigmoid": [[0.2, 0.5]],
        "softplus": [[1.0], [2.5]],
        "softplus_with_threshold": [[2.0, 5.0]],
        "elu": [[1.0]],
        "celu": [[0.7]],
        "threshold": [[0.3, -2.0], [0.3, 1e9]],
        "thresholded_relu": [[0.8], [1e39]],
        "hardtanh": [[-0.7, 0.9], [-1e9, 1e9]],
        "hard_shrink": [[0.5], [1e9]],
        "soft_shrink": [[0.5], [-0.5], [1e5]],
        "shrink": [[0.5, 0.1]],
    }
    for name, lists in numbers.items():
        for args in lists:
            shape = draw.shape(1, 2)
            smooth = draw.floats(*shape) + 0.05
            yield Case(f"activation.{name}", [smooth, *args], grad=all(abs(it) < 1e4 for it in args))
            if "softm" not in name:
                yield Case(
                    f"activation.{name}", [torch.tensor([float("nan"), float("inf"), float("-inf"), 2.0]), *args]
                )
            yield Case(f"activation.{name}", [smooth.half(), *args])
    yield Case("activation.glu", [draw.floats(2, 4), 1], grad=True)
    yield Case("activation.glu", [draw.floats(2, 3), 1])
    yield Case("activation.prelu", [draw.floats(2, 3), draw.floats(3)], grad=True)
    yield Case("activation.hardtanh", [draw.floats(4), 1.0, -1.0], grad=True)
    yield Case("loss.cross_entropy_with_logits", [draw.floats(3, 4), draw.floats(3, 4).softmax(1)], grad=True)


@group
def _layers(draw: Draw) -> Iterator[Case]:
    random = draw.random
    for n in (1, 2, 3):
        groups, stride, padding = random.choice([1, 2]), random.randint(1, 2), random.randint(0, 1)
        options = {"stride": [stride] * n, "padding": [padding] * n, "dilation": [1] * n, "groups": groups}
        size = 6 if stride == 1 else 5 if padding else 7  # nothing is left over at the end
        x = draw.floats(2, 4, *[size] * n) if n < 3 else draw.floats(1, 4, 5, 5, 5)
        weight, bias = draw.floats(2, 4 // groups, *[3] * n), draw.floats(2)
        grad = not (n == 3 and stride == 2)
        ends = {"padding_end": None}
        yield Case(f"module.conv{n}d", [x, weight, random.choice([bias, None]), {**options, **ends}], grad=grad)
        if n < 3:
            uneven = {**options, "padding_end": [padding + 1] * n}
            yield Case(f"module.conv{n}d", [x, weight, bias, uneven])
        back = draw.floats(4, 2 // groups, *[3] * n)
        more = {**options, "padding_out": [stride - 1] * n}
        yield Case(f"module.conv_transpose{n}d", [draw.floats(1, 4, *[3] * n), back, draw.floats(2), more], grad=n < 3)
        yield Case(
            f"module.adaptive_avg_pool{n}d", [draw.floats(1, 2, *[5] * n), [random.randint(1, 4)] * n], grad=True
        )
    options = {"stride": [1, 1], "padding": [1, 0], "dilation": [1, 1], "groups": 1, "padding_end": None}
    yield Case(
        "module.conv2d_weight_backward",
        [draw.floats(1, 2, 4, 4), draw.floats(3, 2, 3, 3), draw.floats(1, 3, 4, 2), options],
    )
    deform = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "weight_groups": 1, "offset_groups": 1}
    offset, mask = draw.floats(1, 18, 4, 4, scale=0.3), draw.floats(1, 9, 4, 4)
    yield Case(
        "module.deform_conv2d", [draw.floats(1, 2, 4, 4), offset, draw.floats(3, 2, 3, 3), mask, draw.floats(3), deform]
    )
    unfold = {"stride": [1, 2], "padding": [0, 1], "dilation": [1, 1]}
    yield Case("module.unfold4d", [draw.floats(1, 2, 4, 5), [2, 3], unfold], grad=True)
    yield Case("module.fold4d", [draw.floats(1, 12, 9), [4, 5], [2, 3], unfold])
    for n in (1, 2):
        window = {
            "kernel_size": [2] * n,
            "stride": [2] * n,
            "padding": [1] * n,
            "padding_end": None,
            "ceil_mode": random.random() < 0.5,
        }
        x = torch.randperm(2 * 7**n).float().reshape(1, 2, *[7] * n)
        yield Case(f"module.max_pool{n}d", [x, {**window, "dilation": [1] * n}], grad=True)
        yield Case(f"module.max_pool{n}d_with_indices", [x, {**window, "dilation": [1] * n}])
        yield Case(f"module.avg_pool{n}d", [x, {**window, "count_include_pad": random.random() < 0.5}], grad=True)
    x = torch.randperm(16).float().reshape(1, 1, 4, 4)
    places = torch.tensor([[[[5, 7], [13, 15]]]])
    yield Case(
        "module.max_pool2d_with_indices_backward",
        [x, [2, 2], [2, 2], [0, 0], [1, 1], False, draw.floats(1, 1, 2, 2), places],
    )
    yield Case("module.avg_pool2d_backward", [x, draw.floats(1, 1, 2, 2), [2, 2], [2, 2], [0, 0], True, False])
    for mode in ("Nearest", "NearestExact", "Bilinear", "Bicubic", "Lanczos3"):
        yield Case(
            "module.interpolate", [draw.floats(1, 2, 4, 5), [random.randint(2, 8), 7], mode, random.random() < 0.5]
        )
    query, key, value = (draw.floats(1, 2, rows, 4) for rows in (3, 5, 5))
    for name in ("attention", "attention_fallback"):
        seen = draw.bools(1, 2, 3, 5)
        seen[..., 0] = False
        for mask, bias, cap, causal in (
            (None, None, None, False),
            (seen, None, None, False),
            (None, draw.floats(1, 2, 3, 5), None, True),
            (None, None, 2.0, False),
        ):
            yield Case(
                f"module.{name}",
                [query, key, value, mask, bias, random.choice([None, 0.3]), cap, causal],
                grad=mask is None,
            )
    probs = draw.floats(6, 2, 4).log_softmax(-1)
    lengths = [torch.tensor([6, 5]), torch.tensor([2, 3])]
    yield Case("module.ctc_loss", [probs, draw.ints(2, 3, low=1, high=3), *lengths, 0])
    yield Case(
        "module.linear", [draw.floats(2, 3), draw.floats(3, 4), random.choice([None, draw.floats(4)])], grad=True
    )
    yield Case("module.linear", [draw.floats(2, 2, 3), draw.floats(3, 4), draw.floats(4)], grad=True)
    yield Case("module.embedding", [draw.floats(5, 3), draw.ints(2, 3, low=0, high=4)], grad=True)
    yield Case(
        "module.layer_norm", [draw.floats(2, 4), draw.floats(4), random.choice([None, draw.floats(4)]), 1e-5], grad=True
    )
    vectors = [draw.floats(3) for _ in range(3)]
    images = draw.floats(2, 3, 4)
    yield Case("module.batch_norm", [images, *vectors, draw.floats(3).abs() + 0.5, 1e-5], grad=True)
    yield Case("module.batch_norm_train", [images, *vectors[:2], 1e-5])
    images[0, 0, 0] = float("inf")
    yield Case("module.batch_norm_train", [images, *vectors[:2], 1e-5])
    x = torch.tensor([[0.3, -1.7, 2.9, 0.11, -3.0], [1.0, 2.0, -0.4, 0.7, 1.3]]) * random.choice([1.0, 0.37])
    for value in ("Q8F", "Q8S", "Q4F", "Q4S", "Q2F", "Q2S"):
        yield Case("quantization.quantize_dynamic", [x, {"value": value, "block": None}])
        yield Case("quantization.quantize", [x, torch.tensor([0.5]), {"value": value, "block": None}])
    yield Case("quantization.quantize_dynamic", [torch.tensor([-3.0, 1.0, 2.0, 0.1]), {"value": "Q8F", "block": None}])
    yield Case("quantization.quantize_dynamic", [draw.floats(2, 8), {"value": "Q8S", "block": [4]}])
    yield Case(
        "quantization.compute_q_params", [torch.tensor([-1.5]), torch.tensor([2.5]), {"value": "Q8S", "block": None}]
    )


@group
def _linear_algebra(draw: Draw) -> Iterator[Case]:
    random = draw.random
    for kind in NUMERIC:
        shape = draw.shape(2, 3)
        x, rank = draw.of(kind, *shape), len(shape)
        for op in ("l0_norm", "l1_norm", "max_abs_norm", "min_abs_norm"):
            yield Case(f"linalg.{op}", [x, draw.dim(rank)], kind)
            for dims in ([0], [0, -1], [0, 0], [0, -rank], []):
                yield Case(f"linalg.{op}_dims", [x, dims], kind)
        yield Case("linalg.outer", [draw.of(kind, 3), draw.of(kind, 2)], kind, kind == "Float", rank=2)
        yield Case("linalg.outer_dim", [draw.of(kind, 2, 3), draw.of(kind, 2, 2), 1], kind, rank=3)
        yield Case("linalg.matvec", [draw.of(kind, 2, 3), draw.of(kind, 3)], kind, kind == "Float")
    x = draw.floats(3, 4)
    yield Case("linalg.l2_norm", [x, 1], grad=True)
    yield from (Case("linalg.l2_norm_dims", [x, dims]) for dims in ([0], [0, 1], [1, -1], []))
    for p in (0.0, 1.0, 2.0, 3.0, 0.5, -1.5, float("inf"), float("-inf"), float("nan")):
        yield Case("linalg.lp_norm", [x, p, random.randrange(2)])
        yield Case("linalg.lp_norm_dims", [x, p, [0, 0]])
    yield Case("linalg.lp_norm", [torch.zeros(2, 0), -1.5, 1])
    for norm in ("L0", "L1", "L2", "LInf", "LNegInf", 3.0):
        yield Case("linalg.vector_norm", [x, norm, 1])
        yield Case("linalg.vector_norm_dims", [x, norm, [0, 1]])
        yield Case("linalg.vector_normalize", [x, norm, 1, 1e-6])
    yield Case("linalg.cosine_similarity", [x, draw.floats(3, 4), 1], grad=True)
    square = draw.floats(1, 3, 3) + 3 * torch.eye(3)
    yield Case("linalg.det", [square], grad=True, rank=1)
    yield Case("linalg.lu", [square[0]])
    yield Case("linalg.trace", [draw.floats(2, 3, 3)], rank=2)
    yield Case("grid.affine_grid_2d", [draw.floats(2, 2, 3), [random.choice([1, 2]), 3, 2, 4]], grad=True)
    for kind in KINDS:
        vectors = [draw.of(kind, size) for size in (2, 3, 2)[: random.randint(1, 3)]]
        yield Case(
            "grid.meshgrid", [vectors, random.choice(["Matrix", "Cartesian"]), random.choice(["Dense", "Sparse"])], kind
        )
        yield Case("grid.meshgrid_stack", [vectors, random.choice(["First", "Last"]), "Dense"], kind)
    for name in ("hann", "hamming", "blackman"):
        yield Case(f"signal.{name}_window", [random.randint(2, 9), random.random() < 0.5])
    signal = draw.floats(2, 8)
    yield Case("signal.rfft", [signal, 1, None], grad=True)
    yield Case("signal.rfft", [signal, 1, random.choice([4, 16])])
    yield Case("signal.irfft", [draw.floats(2, 5), draw.floats(2, 5), 1, None])
    yield Case("signal.cfft", [signal, draw.floats(2, 8), 1, None])
    frames = {"n_fft": 8, "hop_length": 4, "win_length": None, "center": True, "onesided": True}
    yield Case("signal.stft", [draw.floats(1, 16), torch.hann_window(8), frames])
    yield Case("signal.istft", [draw.floats(1, 5, 5, 2), torch.hann_window(8), 16, frames])
