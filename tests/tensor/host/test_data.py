import json
import math

import pytest
import torch

from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor import Distribution, TensorData, Tolerance, dtype_name
from burnlike.tensor.core.dtypes import NAMES
from burnlike.tensor.host.host_values import bytes_of, values_of


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_rounded_as_torch_rounds_them(dtype) -> None:
    limits = [0.0, -0.0, math.inf, -math.inf, 65504.0, 65519.0, 65520.0, -65520.0, 3.4e38, 1e-7, 6e-8, 2.9e-8]
    drawn = (torch.randn(4000).double() * 10.0 ** torch.randint(-9, 6, (4000,))).tolist()
    content = bytes_of([*limits, *drawn], dtype)
    expected = torch.tensor([*limits, *drawn], dtype=torch.float32).to(dtype)
    assert content == bytes(expected.view(torch.uint8).tolist())
    assert values_of(content, dtype) == expected.tolist()
    assert math.isnan(values_of(bytes_of([math.nan], dtype), dtype)[0])


def test_a_type_is_found_where_none_is_given() -> None:
    assert TensorData.from_nested([[1, 2]]).dtype is torch.int64
    assert TensorData.from_nested([True]).dtype is torch.bool
    assert TensorData.from_nested([1, 2.5]).dtype is torch.float32
    assert TensorData.full([2], 3).to_vec() == [3, 3]


def test_nested_lists_come_back() -> None:
    nested = [[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]]
    data = TensorData.from_nested(nested)
    assert (data.shape, data.rank(), data.num_elements()) == ((2, 1, 3), 3, 6)
    assert data.to_nested() == nested
    assert TensorData.zeros([2, 0]).to_nested() == [[], []]


@pytest.mark.parametrize(
    "call",
    [
        lambda: TensorData.new([1.0], [2]),
        lambda: TensorData.from_nested([[1], [2, 3]]),
        lambda: TensorData.from_nested([[1], 2]),
        lambda: TensorData.from_bytes(b"123", [1], "f32"),
        lambda: TensorData.new([300], [1], "u8"),
        lambda: TensorData.new([-1], [1], "u8"),
        lambda: TensorData.new([math.inf], [1], "i32"),
        lambda: TensorData.ones([1], "f33"),
        lambda: TensorData.from_json("{}"),
        lambda: TensorData.from_json('{"bytes": [1], "shape": [1], "dtype": "F32"}'),
        lambda: TensorData.from_json('{"bytes": [256], "shape": [1], "dtype": "U8"}'),
        lambda: TensorData.from_json('{"bytes": [1], "shape": [1], "dtype": {"QFloat": {}}}'),
    ],
)
def test_what_does_not_fit_is_refused(call) -> None:
    with pytest.raises(TensorValueError):
        call()


def test_nothing_is_converted_without_being_asked() -> None:
    data = TensorData.new([1.5, 2.5], [2])
    assert data.to_vec("f32") == [1.5, 2.5]
    with pytest.raises(TensorTypeError, match="convert"):
        data.to_vec(float)
    assert list(data.iter(int)) == [1, 2]
    assert data.convert("f32") is data
    assert data.convert(torch.float16).convert("i8").to_vec() == [1, 2]
    assert isinstance(TensorData.try_from_bytes(b"", [1], "u8"), TensorValueError)


@pytest.mark.parametrize("dtype", list(NAMES), ids=str)
def test_json_has_burns_form_and_comes_back(dtype) -> None:
    data = TensorData.new([1, 0, 1], [3, 1], dtype)
    text = data.to_json()
    found = json.loads(text)
    name = {"Bool": "Native"} if dtype is torch.bool else dtype_name(dtype).upper()
    assert found == {"bytes": list(data.as_bytes()), "shape": [3, 1], "dtype": name}
    assert TensorData.from_json(text) == data


def test_json_of_other_stores_is_read() -> None:
    words = '{"dtype": {"Bool": "U32"}, "shape": [2], "bytes": [1, 0, 0, 0, 0, 0, 0, 0], "more": 1}'
    assert TensorData.from_json(words).to_vec() == [True, False]
    assert TensorData.from_json('{"dtype": {"Bool": "U8"}, "shape": [2], "bytes": [1, 0]}').to_vec() == [True, False]
    assert TensorData.from_json('{"dtype": "Flex32", "shape": [0], "bytes": []}').dtype is torch.float32


def test_equality_is_strict_about_the_type_unless_told() -> None:
    x = TensorData.new([1.0, math.inf], [2])
    x.assert_eq(x)
    nan = TensorData.new([1.0, math.nan], [2])
    assert nan == TensorData.new([1.0, math.nan], [2])
    for strict in (True, False):
        with pytest.raises(AssertionError, match="1 of 2 elements differ:\nelement 1: nan and nan"):
            nan.assert_eq(nan, strict=strict)
    with pytest.raises(AssertionError, match="dtypes"):
        x.assert_eq(x.convert("f64"))
    x.assert_eq(x.convert("f64"), strict=False)
    with pytest.raises(AssertionError, match="shapes"):
        x.assert_eq(TensorData.zeros([1, 2]))
    with pytest.raises(AssertionError, match="7 of 7 elements") as caught:
        TensorData.zeros([7]).assert_eq(TensorData.ones([7]))
    assert len(str(caught.value).splitlines()) == 6


def test_a_tolerance_is_calculated_in_the_data_s_type() -> None:
    zero, small = TensorData.new([0.0], [1]), TensorData.new([1e-5], [1])  # 1e-5 in float32 is below 1e-5
    with pytest.raises(AssertionError, match="1 of 1 elements differ"):
        zero.assert_approx_eq(small)
    zero.convert("f64").assert_approx_eq(small.convert("f64"))
    TensorData.new([100], [1]).assert_approx_eq(TensorData.new([100.4], [1]))
    with pytest.raises(AssertionError):
        TensorData.new([1.0], [1], "f16").assert_approx_eq(TensorData.new([1.01], [1], "f16"))


def test_tolerances_by_one_number() -> None:
    relative, absolute = Tolerance.relative(0.01), Tolerance.absolute(0.01)
    assert (relative, absolute) == (Tolerance.rel_abs(0.01, 0), Tolerance.rel_abs(0, 0.01))
    assert relative.approx_eq(1000.0, 1009.0)
    assert not absolute.approx_eq(1000.0, 1009.0)
    assert absolute.approx_eq(0.0, 0.009)
    assert not relative.approx_eq(0.0, 1e-9)
    assert absolute.approx_eq(math.inf, math.inf)
    assert not absolute.approx_eq(math.nan, math.nan)
    for wrong in (
        lambda: Tolerance.rel_abs(1.5, 0),
        lambda: Tolerance.rel_abs(0.1, -1),
        lambda: Tolerance.relative(math.nan),
        lambda: absolute.set_relative(1.5),
        lambda: absolute.set_absolute(-1),
    ):
        with pytest.raises(TensorValueError, match="rtol of 0 to 1"):
            wrong()


def test_a_tolerance_may_be_of_one_precision() -> None:
    coarse = Tolerance.rel_abs(1e-6, 0).set_half_precision_relative(0.1).set_double_precision_absolute(2)
    types = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    assert [coarse.approx_eq(1.0, 1.05, it) for it in types] == [True, True, False, True]
    assert [coarse.set_relative(0).approx_eq(1.0, 1.05, it) for it in types] == [False, False, False, True]
    both = coarse.set_single_precision_absolute(2).set_single_precision_absolute(0.01)
    assert [both.approx_eq(1.0, 1.05, it) for it in types] == [True, True, False, True]
    finer = coarse.set_half_precision_absolute(1).set_single_precision_relative(0.1).set_double_precision_relative(1)
    assert [finer.set_absolute(0).approx_eq(1.0, 1.05, it) for it in types] == [True] * 4
    with pytest.raises(TensorValueError, match="rtol of 0 to 1"):
        coarse.set_half_precision_relative(2)


def test_near_is_relative_or_absolute() -> None:
    x = TensorData.new([100.0, 0.0, math.inf, math.nan], [4])
    near = TensorData.new([100.4, 9e-6, math.inf, math.nan], [4])
    x.assert_approx_eq(near)
    x.assert_approx_eq(near.convert("f64"))
    for tolerance in (Tolerance.strict(), Tolerance.default().set_relative(1e-3)):
        with pytest.raises(AssertionError, match="element 0"):
            x.assert_approx_eq(near, tolerance)
    x.assert_approx_eq(TensorData.new([100.9, 0.009, math.inf, math.nan], [4]), Tolerance.permissive())
    x.assert_approx_eq(TensorData.new([99.0, 0.9, math.inf, math.nan], [4]), Tolerance(0.0, 0.0).set_absolute(1.1))


def test_a_range_is_half_open_unless_inclusive() -> None:
    x = TensorData.new([0.0, 1.0], [2])
    x.assert_within_range_inclusive(0.0, 1.0)
    with pytest.raises(AssertionError, match=r"element 1: 1\.0"):
        x.assert_within_range(0.0, 1.0)
    TensorData.random([100], Distribution.Default).assert_within_range(0.0, 1.0)
    TensorData.random([100], Distribution.Default, "i32").assert_within_range(0, 255)
