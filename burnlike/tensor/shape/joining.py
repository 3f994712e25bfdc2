"""Joining and splitting."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Generic

from typing_extensions import TypeVar

from ...errors import TensorTypeError, TensorValueError
from ..core.arguments import axis, check_rank
from ..core.base import B2, K2, B, Below, D, E, K, Tensor, TensorBase, wrap
from ..core.kinds import MAX_RANK
from ..core.operands import fail, match
from ..core.spec import title

T = TypeVar("T")


class JoiningMethods(TensorBase[B, D, K]):
    """Joining and splitting."""

    __slots__ = ()

    @staticmethod
    def cat(tensors: "Sequence[Tensor[B2, E, K2]]", dim: int) -> "Tensor[B2, E, K2]":
        """One after the other along `dim`. `[.., n, ..], [.., m, ..] -> [.., n + m, ..]`. Torch: `torch.cat`.
        Differs: equal ranks, empty tensors too; no promotion.
        """
        spec, inners = _operands("cat", tensors)
        try:
            return wrap(spec.ops.cat(inners, dim), spec)
        except Exception as error:
            fail("cat", error, *inners)

    @staticmethod
    def stack(tensors: "Sequence[Below[Tensor[B2, E, K2]]]", dim: int) -> "Tensor[B2, E, K2]":
        """Side by side along a new dimension `dim`. `n * [..] -> [.., n, ..]`. Torch: `torch.stack`."""
        spec, inners = _operands("stack", tensors)
        if spec.rank == MAX_RANK:
            check_rank("Stack", spec.rank + 1)
        try:
            return wrap(spec.ops.stack(inners, dim), spec.ranks[spec.rank + 1])
        except Exception as error:
            fail("stack", error, *inners)

    def chunk(self, chunks: int, dim: int) -> "list[Tensor[B, D, K]]":
        """`chunks` pieces along `dim`, all but the last of one size. `[.., n, ..] -> [.., n_i, ..], ..`.
        Torch: `torch.chunk`.
        Differs: exactly `chunks` pieces (of 1 element where there are fewer elements), or an error.
        """
        place = axis("Chunk", dim, self.spec.rank)
        size = self.inner.shape[place]
        if chunks < 1:
            raise TensorValueError("Chunk", f"expected 1 piece or more, got {chunks}")
        if size < chunks:
            return _pieces(self, [1] * size, place)
        if size % chunks == 0:
            return _pieces(self, [size // chunks] * chunks, place)
        whole = size // chunks + 1
        rest = size - whole * (chunks - 1)
        if rest < 1:
            raise TensorValueError(
                "Chunk", f"{size} elements are no {chunks} pieces of {whole}, the last smaller; use split_with_sizes"
            )
        return _pieces(self, [whole] * (chunks - 1) + [rest], place)

    def split(self, split_size: int, dim: int) -> "list[Tensor[B, D, K]]":
        """Pieces of `split_size` along `dim`, the last one smaller where needed. `[.., n, ..] -> [.., n_i, ..], ..`.
        Torch: `torch.split`. Differs: an empty dimension gives an empty list.
        """
        place = _split_axis("Split", dim, self.spec.rank)
        size = self.inner.shape[place]
        if split_size < 0 or (split_size == 0 and size > 0):
            raise TensorValueError("Split", f"expected pieces of 1 element or more, got {split_size}")
        sizes = [split_size] * (size // split_size) if size else []
        return _pieces(self, [*sizes, size % split_size] if size and size % split_size else sizes, place)

    def split_with_sizes(self, split_sizes: Sequence[int], dim: int) -> "list[Tensor[B, D, K]]":
        """Pieces of the given sizes along `dim`; those of size 0 are left out. `[.., n, ..] -> [.., n_i, ..], ..`.
        Torch: `torch.split`. Differs: leaves empty pieces out.
        """
        place = _split_axis("Split With Sizes", dim, self.spec.rank)
        size = self.inner.shape[place]
        if min(split_sizes, default=0) < 0 or sum(split_sizes) != size:
            raise TensorValueError(
                "Split With Sizes",
                "The sum of split_sizes must equal the tensor size along the specified dimension."
                f" Sizes {list(split_sizes)}, dimension {place} of size {size}",
            )
        return _pieces(self, [count for count in split_sizes if count], place)

    def iter_dim(self, dim: int) -> "DimIter[Tensor[B, D, K]]":
        """The slices along `dim`, from either end. `[.., n] -> n * [.., 1]`. Torch: `torch.unbind`.
        Differs: keeps `dim`.
        """
        place = axis("Iter Dim", dim, self.spec.rank)
        return DimIter(_pieces(self, [1] * self.inner.shape[place], place))


class DimIter(Generic[T]):
    """The slices of a tensor along a dimension, taken from the front (`next`) or the back (`next_back`).

    Example:
        >>> import torch
        >>> from burnlike import Cpu, Tensor
        >>> slices = Tensor(torch.tensor([1.0, 2.0, 3.0]), Cpu()).iter_dim(0)
        >>> slices.next_back().inner, len(slices)
        (tensor([3.]), 2)
    """

    def __init__(self, slices: Sequence[T]) -> None:
        self._left = deque(slices)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if not self._left:
            raise StopIteration
        return self._left.popleft()

    def next_back(self) -> T | None:
        """The last slice that is left, or None."""
        return self._left.pop() if self._left else None

    def __reversed__(self) -> Iterator[T]:
        while self._left:
            yield self._left.pop()

    def __len__(self) -> int:
        return len(self._left)


def _operands(name: str, tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The Spec of the result (the first typed tensor's, but for autocast), and all torch tensors, which fit it."""
    inners: list[Any] = []
    try:
        spec = tensors[0].spec
        for tensor in tensors:
            if tensor.spec is not spec:
                break
            inners.append(tensor.inner)
        else:
            return spec, inners
    except (AttributeError, IndexError, TypeError):
        pass  # a torch tensor, nothing, or no list
    return _mixed_operands(name, tensors)


def _mixed_operands(name: str, tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
    spec = next((it.spec for it in tensors if isinstance(it, TensorBase)), None)
    if spec is None:
        if not tensors:
            raise TensorValueError(title(name), "expected at least one tensor, got none")
        raise TensorTypeError(title(name), f"expected a Tensor among them, got {type(tensors[0]).__name__}")
    inners: list[Any] = []
    for tensor in tensors:
        if isinstance(tensor, int | float):
            raise TensorTypeError(title(name), f"expected a tensor, got {tensor!r}")
        inner, spec = match(name, spec, tensor)
        inners.append(inner)
    return spec, inners


def _split_axis(operation: str, dim: int, rank: int) -> int:
    if dim >= rank:
        raise TensorValueError(
            operation, f"Given dimension is greater than or equal to the tensor rank. Dimension {dim}, rank {rank}"
        )
    return axis(operation, dim, rank)


def _pieces(tensor: Any, sizes: list[int], dim: int) -> list[Any]:
    if not sizes:
        return []
    spec = tensor.spec
    return [wrap(piece, spec) for piece in spec.ops.split(tensor.inner, sizes, dim)]
