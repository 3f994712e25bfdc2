"""Options check themselves and can be changed only by making new ones."""

from typing import Any

import pytest

from burnlike.errors import TensorTypeError, TensorValueError
from burnlike.tensor.options import (
    AttentionModuleOptions,
    AvgPoolOptions,
    ConvOptions,
    ConvTransposeOptions,
    DeformConvOptions,
    GridSampleOptions,
    InterpolateOptions,
    MaxPoolOptions,
    UnfoldOptions,
)


def test_defaults_are_those_of_burn() -> None:
    assert InterpolateOptions("Bilinear").align_corners
    assert GridSampleOptions() == GridSampleOptions("Bilinear", padding_mode="Zeros", align_corners=False)
    assert MaxPoolOptions([3, 2]).stride == (3, 2)
    assert AvgPoolOptions(2).count_include_pad


def test_an_end_padding_of_its_own_makes_pairs() -> None:
    assert ConvOptions(padding=[3], padding_end=[0]) == ConvOptions(padding=[(3, 0)])
    assert ConvOptions(padding=[1, 2], padding_end=0).padding == ((1, 0), (2, 0))


def test_builders_make_new_options() -> None:
    options = MaxPoolOptions(3)
    changed = options.with_stride(1).with_padding_pairs([(0, 1)]).with_dilation(2).with_ceil_mode(True)
    assert changed == MaxPoolOptions(3, stride=1, padding=[(0, 1)], dilation=2, ceil_mode=True)
    assert options == MaxPoolOptions(3)
    assert AvgPoolOptions(3).with_padding(1).with_count_include_pad(False).padding == 1


def test_the_later_of_size_and_scale_factor_wins() -> None:
    options = InterpolateOptions().with_output_size([4, 4]).with_scale_factor(2.0)
    assert (options.output_size, options.scale_factor) == (None, (2.0, 2.0))
    assert options.with_output_size(3).scale_factor is None


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (ConvOptions, {"stride": [1, 0]}, "stride: expected at least 1, got 0"),
    (ConvOptions, {"groups": 0}, "groups: expected at least 1"),
    (ConvOptions, {"padding": -1}, "padding: expected at least 0"),
    (ConvOptions, {"padding": [(1, 2, 3)]}, "one .begin, end. pair per dimension"),
    (ConvTransposeOptions, {"dilation": 0}, "dilation: expected at least 1"),
    (DeformConvOptions, {"offset_groups": 0}, "offset_groups: expected at least 1"),
    (DeformConvOptions, {"weight_groups": 0}, "weight_groups: expected at least 1"),
    (UnfoldOptions, {"stride": 0}, "stride: expected at least 1"),
    (MaxPoolOptions, {"kernel_size": 0}, "kernel_size: expected at least 1"),
    (InterpolateOptions, {"mode": "Bilinaer"}, "did you mean 'Bilinear'"),
    (InterpolateOptions, {"output_size": 2, "scale_factor": 2.0}, "got both"),
    (InterpolateOptions, {"scale_factor": -1.0}, "more than 0, got -1"),
    (GridSampleOptions, {"padding_mode": "Wrap"}, "expected one of"),
    (AttentionModuleOptions, {"softcap": 0.0}, "softcap: expected more than 0"),
]


@pytest.mark.parametrize(("options", "fields", "message"), WRONG)
def test_wrong_values_are_refused(options: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TensorValueError, match=message):
        options(**fields)


def test_a_size_is_an_int() -> None:
    wrong: list[Any] = ["3", [1.5]]
    with pytest.raises(TensorTypeError, match="one int per dimension, got '3'"):
        ConvOptions(stride=wrong[0])
    with pytest.raises(TensorTypeError, match=r"got 1\.5"):
        ConvOptions(stride=wrong[1])
