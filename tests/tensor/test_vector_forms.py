"""Forms that the format of vectors allows and that the project's own files don't use: the runner takes them too."""

from typing import Any

import pytest

from tests.vectors.backends import backends_for, plain_backend
from tests.vectors.cases import run


def value(data: Any, kind: str = "float", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "data": data, **more}


def arg(data: Any, kind: str = "float", **more: Any) -> dict[str, Any]:
    return {"tensor": value(data, kind, **more)}


def made(op: str, args: list[Any], expected: Any, kind: str | None = "float", **more: Any) -> dict[str, Any]:
    """A static call."""
    kinds = {} if kind is None else {"kind": kind}
    return {"op": op, "self": None, "args": args, "expected": expected, **kinds, **more}


def of(receiver: dict[str, Any], op: str, args: list[Any], expected: Any, **more: Any) -> dict[str, Any]:
    """A call with a receiver."""
    return {"op": op, "self": receiver, "args": args, "expected": expected, **more}


def options(name: str, **fields: Any) -> dict[str, Any]:
    return {"options": fields, "type": name}


PAIR = value([[[[1.0, 2.0]]]])
LINE = value([[[1.0, 2.0]]])
ONE = arg([[[[1.0]]]])
PANICS = {"error": "panics"}
SHOWN = 'Tensor {\n  data:\n[3.0, 4.0],\n  shape:  [2],\n  device:  <device>,\n  kind:  "Float",\n  dtype:  "f32",\n}'

CREATED = [
    made("arange", [[0, 3], "i64"], value([0, 1, 2], "int", dtype="i64"), "int"),
    made("arange", [[0, 3], ["default", "i64"]], value([0, 1, 2], "int", dtype="i64"), "int"),
    made("arange_step", [[0, 5], 2, ["default", "i16"]], value([0, 2, 4], "int", dtype="i16"), "int"),
    made("random", [[2, 2], "Default"], {"kind": "float", "shape": [2, 2]}),
    made("random", [[2], {"Bernoulli": 1.0}], value([1.0, 1.0])),
    made("random", [[2], {"Normal": [3.0, 0.0]}], value([3.0, 3.0])),
    made("random", [[2], {"Uniform": [0, 1]}, "i64"], value([0, 0], "int", dtype="i64"), "int"),
    made("ones", [[2], ["default", "f16"]], value([1, 1], dtype="f16")),
    made("zeros", [[2], None], value([0, 0])),
    made("from_floats", [[[1.0, "nan"]]], value([[1.0, "nan"]])),
    made("from_ints", [arg([1, 2], "int")], value([1, 2], "int"), None),
    made("from_data", [[1, 2], "f64"], value([1, 2], dtype="f64")),
    made("signal.hann_window", [4, True, None], value([0, 0.5, 1, 0.5]), None),
    made("signal.hann_window", [4, True, "f64"], value([0, 0.5, 1, 0.5], dtype="f64"), None),
    made("einsum", ["ij,jk->ik", [arg([[1.0, 2.0]]), arg([[1.0], [2.0]])]], value([[5.0]]), None),
    made(
        "grid.meshgrid_stack",
        [[arg([1, 2], "int"), arg([3], "int")], "First"],
        value([[[1], [2]], [[3], [3]]], "int"),
        None,
    ),
]
READ = [
    of(value([2.5]), "into_scalar", [], 2.5),
    of(value([7], "int"), "into_scalar", [], 7),
    of(value([[2.5]]), "to_data", [], value([[2.5]])),
    of(value([[2.5, 1]]), "try_into_scalar", [], PANICS),
    of(value([[2.5, 1]]), "dims", [], [1, 2]),
    of(value([[2.5, 1]]), "shape", [], [1, 2]),
    of(value([[2.5, 1]]), "rank", [], 2),
    of(value([2.5]), "is_require_grad", [], False),
    of(value([3.0, 4.0]), "display", ["{:.1}"], {"text": SHOWN}),
    of(value([3.0, 4.0]), "display", ["{}"], {"text": SHOWN}),
    of(value([3.0]), "dtype", [], "f32"),
    of(value([3], "int"), "dtype", [], "DType.I32"),
    of(value([True, False], "bool"), "nonzero_async", [], [value([0], "int")]),
]
SHAPED = [
    of(value([3.0, 4.0]), "slice", [[1]], value([4.0])),
    of(value([3.0, 4.0]), "slice_dim", [0, 1], value([4.0])),
    of(value([3.0, 4.0]), "reshape", [[2, 1]], value([[3.0], [4.0]]), kwargs={"rank": 2}),
    of(value([[3.0, 4.0]]), "squeeze", [], value([3.0, 4.0]), kwargs={"rank": 1}),
    of(value([[3.0]]), "pad", [[[0, 1], [1, 0]], {"Constant": "nan"}], value([["nan", 3.0], ["nan", "nan"]])),
    of({"kind": "int", "arange": [0, 6, 2], "shape": [3]}, "flip", [[0]], value([4, 2, 0], "int")),
    of(
        {"kind": "float", "full": "inf", "shape": [1, 2]}, "neg", [], {"kind": "float", "full": "-inf", "shape": [1, 2]}
    ),
    of(value([[2**40]], "int", dtype="i64"), "neg", [], value([[-(2**40)]], "int", dtype="i64")),
    of(value([3.7]), "cast", ["IntDType.I64"], value([3], "int", dtype="i64")),
]
SCHEME = {"value": "Q8S", "level": {"Block": [1]}, "param": "F32", "store": "Native", "mode": "Symmetric"}
QUANTIZED = {"op": "quantize_dynamic", "self": value([1.27, 2.54]), "args": [options("QuantScheme", **SCHEME)]}

FUNCTIONS = [
    {**QUANTIZED, "expected": {"q": [127, 127], "scales": [0.01, 0.02]}, "rtol": 1e-6},
    of(QUANTIZED, "dequantize", [], value([1.27, 2.54]), rtol=1e-6),
    of(QUANTIZED, "add", [arg([1.0, 1.0], quantize="int8")], value([2.27, 3.54]), rtol=1e-6),
    of(value([3.0, 4.0]), "linalg.vector_norm", [{"Lp": 2.0}, 0], value([5.0])),
    of(value([3.0, 4.0]), "linalg.vector_norm", ["L1", 0], value([7.0])),
    of(value([3.0, 4.0]), "linalg.vector_normalize", ["L2", 0, 1e-12], value([0.6, 0.8])),
    of(value([[3.0, 4.0]]), "linalg.vector_norm_dims", ["L2", [0, 1]], value([[5.0]])),
    of(value([[1.0, 2.0], [4.0, 3.0]]), "linalg.lu", [], [None, value([[1, 0], [0.25, 1]]), None]),
    of(PAIR, "module.max_pool2d", [options("MaxPoolOptions", kernel_size=[1, 2], stride=[1, 1])], value([[[[2.0]]]])),
    of(PAIR, "module.avg_pool2d_backward", [ONE, [1, 2], [1, 1], [0, 0], True, False], value([[[[0.5, 0.5]]]])),
    of(
        PAIR,
        "module.max_pool2d_with_indices_backward",
        [[1, 2], [1, 1], [0, 0], [1, 1], False, ONE, arg([[[[1]]]], "int")],
        value([[[[0.0, 1.0]]]]),
    ),
    of(PAIR, "module.interpolate", [options("InterpolateOptions", output_size=[1, 4])], value([[[[1, 1, 2, 2]]]])),
    of(PAIR, "module.interpolate", [[1, 4], options("InterpolateOptions", mode="Nearest")], value([[[[1, 1, 2, 2]]]])),
    of(PAIR, "grid_sample_2d", [arg([[[[-1.0, 0.0]]]]), None], value([[[[0.5]]]])),
    of(value([[[[1.0]]]]), "module.attention", [ONE, arg([[[[3.0]]]]), None, None, None], value([[[[3.0]]]])),
    of(LINE, "module.conv1d", [arg([[[1.0]]]), None, options("ConvOptions", padding=[[1, 0]])], value([[[0, 1, 2]]])),
    of(
        LINE,
        "module.conv1d",
        [arg([[[1.0]]]), None, options("PaddedConvOptions", padding=[1], padding_end=[0])],
        value([[[0, 1, 2]]]),
    ),
]


@pytest.mark.parametrize("record", [*CREATED, *READ, *SHAPED, *FUNCTIONS], ids=lambda record: record["op"])
def test_the_form_is_understood(record: dict[str, Any]) -> None:
    plain = plain_backend("cpu")
    assert plain is not None
    for backend in backends_for(False, plain):
        outcome = run({"id": "made", "rtol": 1e-4, "atol": 1e-5, **record}, backend)
        assert outcome.verdict == "passed", outcome.reason


@pytest.mark.parametrize(
    "record",
    [
        made("cat", [[arg([1.0])], 0, 1], PANICS, None),
        made("zeros", [[2], "f32", 1], PANICS),
        made("zeros", [[2], ["cuda", "f32"]], PANICS),
        made("zeros", [[2], {"dtype": "f32"}], PANICS),
        of(value([1.0]), "cast", ["DType.F8"], PANICS),
        of(value([1.0]), "slice", [[[0, 1]]], PANICS),
        of(value([1.0]), "slice", ["0..1"], PANICS),
        of(value([1.0]), "pad", [[1, 1], "Wrap"], PANICS),
        of(PAIR, "module.conv2d", [ONE, None, options("ConvOptions", stride=[1], colour=1)], PANICS),
        of(PAIR, "module.conv2d", [ONE, None, options("Frobnication")], PANICS),
        of(value([1.0]), "linalg.vector_norm", [{"Lq": 2.0}, 0], PANICS),
        of(value([1.0]), "zeros", [[2]], PANICS),
    ],
    ids=lambda record: record["op"],
)
def test_an_unknown_form_fails_even_where_an_error_is_expected(record: dict[str, Any]) -> None:
    plain = plain_backend("cpu")
    assert plain is not None
    outcome = run({"id": "made", **record}, plain)
    assert outcome.verdict == "failed"
    assert "the runner does not know this" in outcome.reason
