"""Padding of convolutions and pools."""

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings, strategies as st

from burnlike.config import Config, registry
from burnlike.config.bounds import Size
from burnlike.errors import ShapeError
from burnlike.nn import Conv2dConfig
from burnlike.nn.padding import (
    both_ends,
    calculate_padding_1d_pair,
    calculate_padding_2d,
    calculate_padding_2d_pairs,
    calculate_padding_3d,
    padding_text,
)


def test_explicit_sizes_are_in_burns_order() -> None:
    assert calculate_padding_1d_pair((1, 2), 10, 3, 1) == (1, 2)
    assert calculate_padding_1d_pair(3, 10, 3, 1) == (3, 3)
    assert calculate_padding_2d_pairs((1, 2, 3, 4), 10, 10, (3, 3), (1, 1)) == ((1, 3), (2, 4))
    assert calculate_padding_2d((2, 3, 2, 3), 10, 10, (3, 3), (1, 1)) == (2, 3)
    assert calculate_padding_3d((1, 2, 3), 10, 10, 10, (3, 3, 3), (1, 1, 1)) == (1, 2, 3)


@settings(max_examples=50)
@given(size=st.integers(1, 40), kernel=st.integers(1, 9), stride=st.integers(1, 5))
def test_same_gives_one_output_for_each_stride(size: int, kernel: int, stride: int) -> None:
    begin, end = calculate_padding_1d_pair("Same", size, kernel, stride)
    assert end - begin in (0, 1)
    outputs = -(-size // stride)
    if kernel >= stride:
        assert (size + begin + end - kernel) // stride + 1 == outputs
    elif (outputs - 1) * stride + kernel <= size:
        assert (begin, end) == (0, 0)


def test_ends_that_differ_are_refused_where_one_size_is_wanted() -> None:
    with pytest.raises(ShapeError, match=r"expected the same padding at both ends, got \[1, 2\] and \[3, 4\]"):
        calculate_padding_2d((1, 2, 3, 4), 10, 10, (3, 3), (1, 1))
    with pytest.raises(ShapeError, match="by Same for 10 x 10 x 10 with a kernel of 2 x 3 x 3 and strides of 1"):
        calculate_padding_3d("Same", 10, 10, 10, (2, 3, 3), (1, 1, 1))


def test_text_is_burns() -> None:
    assert [padding_text(it) for it in ("Valid", "Same", (1, 0, 1, 0))] == ["Valid", "Same", "Explicit(1, 0, 1, 0)"]
    assert both_ends("Valid", (1, 1, 3, 3), (2, 2), (1, 1)) == ((0, 0), (0, 0))


def test_no_config_has_bounds_beside_a_tuple_of_fixed_length() -> None:
    """msgspec 0.22 reads wrong memory for these two in one union, and the process ends."""
    assert _is_unsafe(Size | tuple[Size, Size])
    assert not _is_unsafe(int | tuple[Size, Size])
    registry.load_built_in()
    configs = [it for it in _below(Config) if it.__module__.startswith("burnlike.")]
    assert Conv2dConfig in configs
    hints = {it: get_type_hints(it, include_extras=True) for it in configs}
    assert [f"{it.__name__}.{name}" for it in configs for name, kind in hints[it].items() if _is_unsafe(kind)] == []


def _below(cls: type[Any]) -> list[type[Any]]:
    return [it for below in cls.__subclasses__() for it in (below, *_below(below))]


def _is_unsafe(kind: Any) -> bool:
    parts = get_args(kind)
    if get_origin(kind) not in (Union, UnionType):
        return any(map(_is_unsafe, parts))
    bounded = any(get_origin(it) is Annotated and get_args(it)[0] in (int, float) for it in parts)
    fixed = [it for it in parts if get_origin(it) is tuple and get_args(it)[-1] is not Ellipsis]
    return (bounded and bool(fixed)) or any(map(_is_unsafe, parts))
