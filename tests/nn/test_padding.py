"""Padding of convolutions and pools."""

import pytest
from hypothesis import given, settings, strategies as st

from burnlike.errors import ShapeError
from burnlike.nn.padding import both_ends, equal_ends, layer_padding, padding_text


def test_explicit_sizes_are_in_burns_order() -> None:
    assert both_ends((1, 2), (1, 1, 10), (3,), (1,)) == ((1,), (2,))
    assert both_ends(layer_padding(3, 2), (1, 1, 10), (3,), (1,)) == ((3,), (3,))
    assert both_ends((1, 2, 3, 4), (1, 1, 10, 10), (3, 3), (1, 1)) == ((1, 2), (3, 4))
    assert equal_ends("padding", (2, 3, 2, 3), (1, 1, 10, 10), (3, 3), (1, 1)) == (2, 3)
    assert equal_ends("padding", (1, 2, 3), (1, 1, 10, 10, 10), (3, 3, 3), (1, 1, 1)) == (1, 2, 3)


@settings(max_examples=50)
@given(size=st.integers(1, 40), kernel=st.integers(1, 9), stride=st.integers(1, 5))
def test_same_gives_one_output_for_each_stride(size: int, kernel: int, stride: int) -> None:
    (begin,), (end,) = both_ends("Same", (1, 1, size), (kernel,), (stride,))
    assert end - begin in (0, 1)
    outputs = -(-size // stride)
    if kernel >= stride:
        assert (size + begin + end - kernel) // stride + 1 == outputs
    elif (outputs - 1) * stride + kernel <= size:
        assert (begin, end) == (0, 0)


def test_ends_that_differ_are_refused_where_one_size_is_wanted() -> None:
    with pytest.raises(ShapeError, match=r"expected the same padding at both ends, got \[1, 2\] and \[3, 4\]"):
        equal_ends("padding", (1, 2, 3, 4), (1, 1, 10, 10), (3, 3), (1, 1))
    with pytest.raises(ShapeError, match="by Same for 10 x 10 x 10 with a kernel of 2 x 3 x 3 and strides of 1"):
        equal_ends("padding", "Same", (1, 1, 10, 10, 10), (2, 3, 3), (1, 1, 1))


def test_text_is_burns() -> None:
    assert [padding_text(it) for it in ("Valid", "Same", (1, 0, 1, 0))] == ["Valid", "Same", "Explicit(1, 0, 1, 0)"]
    assert both_ends("Valid", (1, 1, 3, 3), (2, 2), (1, 1)) == ((0, 0), (0, 0))
