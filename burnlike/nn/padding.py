"""Padding of convolutions and pools: Burn's `Valid`, `Same` and explicit sizes. Imports no torch.

`Same` gives ceil(size / stride) outputs. It needs max((outputs - 1) * stride + kernel_size - size, 0) zeros, half of
them, rounded down, at the start. Dilation does not count (burn-nn 0.22.1, padding.rs).
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from ..config import Meta
from ..config.bounds import CountOrZero, Size
from ..errors import ShapeError

# Not `tuple[Size, Size]`: msgspec 0.22 reads wrong memory for a number with bounds beside a tuple of a fixed length.
_Sizes2d: TypeAlias = Annotated[tuple[Size, ...], Meta(min_length=2, max_length=2)]
_Sizes3d: TypeAlias = Annotated[tuple[Size, ...], Meta(min_length=3, max_length=3)]
_Ends2: TypeAlias = Annotated[tuple[CountOrZero, ...], Meta(min_length=2, max_length=2)]
_Ends3: TypeAlias = Annotated[tuple[CountOrZero, ...], Meta(min_length=3, max_length=3)]
_Ends4: TypeAlias = Annotated[tuple[CountOrZero, ...], Meta(min_length=4, max_length=4)]

Size2d: TypeAlias = Size | _Sizes2d
"""One size for height and width, or one for each."""
Size3d: TypeAlias = Size | _Sizes3d
"""One size for depth, height and width, or one for each."""
SizeOrZero2d: TypeAlias = CountOrZero | _Ends2
"""One size from 0 on for height and width, or one for each."""
SizeOrZero3d: TypeAlias = CountOrZero | _Ends3
"""One size from 0 on for depth, height and width, or one for each."""

PaddingConfig1d: TypeAlias = Literal["Valid", "Same"] | CountOrZero | _Ends2
"""`Valid` (none), `Same`, one size for both ends, or `[left, right]`."""
PaddingConfig2d: TypeAlias = Literal["Valid", "Same"] | CountOrZero | _Ends4
"""`Valid` (none), `Same`, one size for all sides, or `[top, left, bottom, right]`."""
PaddingConfig3d: TypeAlias = Literal["Valid", "Same"] | CountOrZero | _Ends3
"""`Valid` (none), `Same`, one size for all sides, or `[depth, height, width]`, each for both ends."""

Padding: TypeAlias = str | tuple[int, ...]
"""The padding that a layer has: `Valid`, `Same`, or the explicit sizes."""


def each(size: int | tuple[int, ...], dims: int) -> tuple[int, ...]:
    """One size for each dimension."""
    return size if isinstance(size, tuple) else (size,) * dims


def layer_size(size: Any, dims: int) -> Any:
    """The size that a layer has as its attribute: an int in one dimension, else one int for each."""
    return size if dims == 1 else each(size, dims)


def shown_size(size: int | tuple[int, ...]) -> int | list[int]:
    """As Burn prints it: `3`, `[3, 3]`."""
    return list(size) if isinstance(size, tuple) else size


def layer_padding(padding: Padding | int, count: int) -> Padding:
    """The padding of a config with one size written out as `count` sizes."""
    return (padding,) * count if isinstance(padding, int) else padding


def padding_text(padding: Padding) -> str:
    """As Burn prints it: `Same`, `Explicit(1, 0, 1, 0)`."""
    return padding if isinstance(padding, str) else f"Explicit({', '.join(map(str, padding))})"


def both_ends(
    padding: Padding, shape: Sequence[int], kernel_size: tuple[int, ...], stride: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and after each dimension of an input `[batch, channels, *sizes]`."""
    dims = len(kernel_size)
    if isinstance(padding, tuple):
        return (padding, padding) if len(padding) == dims else (padding[:dims], padding[dims:])
    if padding == "Valid":
        none = (0,) * dims
        return none, none
    begin: list[int] = []
    end: list[int] = []
    for dim in range(dims):
        size, step = shape[dim + 2], stride[dim]
        total = max((-(-size // step) - 1) * step + kernel_size[dim] - size, 0)
        begin.append(total // 2)
        end.append(total - total // 2)
    return tuple(begin), tuple(end)


def equal_ends(
    name: str, padding: Padding, shape: Sequence[int], kernel_size: tuple[int, ...], stride: tuple[int, ...]
) -> tuple[int, ...]:
    """The padding at both ends of each dimension of `[batch, channels, *sizes]`; ShapeError if they differ."""
    begin, end = both_ends(padding, shape, kernel_size, stride)
    if begin != end:
        raise ShapeError(
            f"{name}: expected the same padding at both ends, got {list(begin)} and {list(end)} by "
            f"{padding_text(padding)} for {_by(shape[2:])} with a kernel of {_by(kernel_size)} and strides of "
            f"{_by(stride)}"
        )
    return begin


def span(kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    """From the first to the last element that a kernel reads, in each dimension."""
    return tuple((kernel - 1) * gap + 1 for kernel, gap in zip(kernel_size, dilation, strict=True))


def window_counts(
    sizes: Sequence[int], window: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]
) -> list[int]:
    """The number of windows that fit into an input of `sizes` with this padding at both ends, in each dimension."""
    return [
        (size + 2 * pad - covered) // step + 1
        for size, covered, step, pad in zip(sizes, window, stride, padding, strict=True)
    ]


def expect_window(
    layer: object,
    shape: Sequence[int],
    kernel_size: tuple[int, ...],
    dilation: tuple[int, ...],
    begin: tuple[int, ...],
    end: tuple[int, ...],
) -> None:
    """Raise ShapeError if the padded input, `[batch, channels, *sizes]`, is smaller than one window."""
    for dim in range(len(kernel_size)):  # without zip, which would take longer than small layers do
        if shape[dim + 2] + begin[dim] + end[dim] <= (kernel_size[dim] - 1) * dilation[dim]:
            break
    else:
        return
    padded = [size + before + after for size, before, after in zip(shape[2:], begin, end, strict=True)]
    raise ShapeError(
        f"{type(layer).__name__}: expected sizes of {_by(span(kernel_size, dilation))} or more after padding, as its "
        f"kernel covers, got {_by(padded)} from {list(shape)}"
    )


def even_kernel(padding: Padding | int, kernel_size: int | tuple[int, ...]) -> Iterator[tuple[str, str]]:
    """The rule of layers that can't pad the two ends differently: no `Same` with an even kernel."""
    if padding == "Same" and any(size % 2 == 0 for size in each(kernel_size, 1)):
        yield (
            "padding",
            f"expected odd kernel sizes for Same, got {shown_size(kernel_size)}; write the sizes of the padding",
        )


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))
