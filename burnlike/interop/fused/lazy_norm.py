"""Batch normalization of images that waits for the activation behind it, to be one op with it.

Within a part of a model that computes in channels_last (`images.py`), `F.batch_norm` takes the statistics of its input
at once, and writes the running ones. Its result is a tensor without memory until something reads it:

    y = self.bn2(y)            # lazy: x, mean, variance
    y += identity              # lazy, with a residual
    y = self.relu(y)           # ops.batch_norm(x, ..., residual, activation="relu")
    y = self.pool(self.bn(y))  # `max_pool2d` is in no list, so the normalized numbers are read here

It never leaves such a part, whose code is known to do nothing with tensors but call functions of torch.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self
from weakref import ref

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ... import ops
from ..._torch_compat.tensors import times_written
from ..._torch_compat.wrappers import as_plain, tensor_without_memory
from ...errors import AutodiffError
from ...ops.batch_norm import BatchActivation
from .image_layouts import images_of, rows_of
from .lazy_logits import LazyTensor


@dataclass(slots=True, weakref_slot=True)
class NormRecipe:
    """The recipe of a lazy normalization of x `[n, c, h, w]`; `values` are the numbers, once read."""

    x: Tensor
    columns: tuple[Tensor, Tensor, Tensor, Tensor]
    epsilon: float
    of_batch: bool
    tracked: bool
    versions: tuple[int, int]  # of x and the residual
    residual: Tensor | None = None
    values: Tensor | None = None

    def read(self) -> Tensor:
        if self.values is None:
            self.values = self.computed("none")
        return self.values

    def computed(self, activation: BatchActivation) -> Tensor:
        if (version_of(self.x), version_of(self.residual)) != self.versions:
            raise AutodiffError(
                "a part of the model wrote to the input of a batch normalization before it used its result, as it did"
                " not in its first call; call unfuse on this part"
            )
        residual = None if self.residual is None else rows_of(self.residual)
        with torch.set_grad_enabled(self.tracked):
            y = ops.batch_norm(
                rows_of(self.x),
                *self.columns,
                residual,
                epsilon=self.epsilon,
                activation=activation,
                of_batch=self.of_batch,
            )
            return images_of(y)


class LazyNorm(LazyTensor):
    """A normalization by a `recipe`, of which a sum is another, and activations are read with it in one op."""

    recipe: NormRecipe

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        keywords, first = kwargs or {}, args[0] if args else None
        if isinstance(first, LazyNorm) and first.recipe.values is None:
            if func in _ABOUT:
                with as_plain():
                    return func(*args, **keywords)
            if func in _ACTIVATIONS and len(args) == 1 and keywords.keys() <= {"inplace"}:
                activation, in_place = _ACTIVATIONS[func]
                recipe = first.recipe
                # Beside a residual the op has no other activation.
                if recipe.residual is None or activation == "relu":
                    values = recipe.computed(activation)
                    if in_place or keywords.get("inplace"):
                        recipe.values = values
                    return values
        if func in _SUMS and len(args) == 2 and not keywords:
            with_residual = _sum(*args, in_place=func in _IN_PLACE)
            if with_residual is not None:
                return with_residual
        return super().__torch_function__(func, types, args, kwargs)


def lazy_norm(x: Tensor, columns: tuple[Tensor, Tensor, Tensor, Tensor], epsilon: float, of_batch: bool) -> Tensor:
    """`ops.batch_norm` of an image `[n, c, h, w]` in channels_last, to be computed when it is read.

    Args:
        x: the image.
        columns: gamma, beta, mean and variance.
        epsilon: added to the variance.
        of_batch: whether mean and variance are those of x.
    """
    return _lazy(NormRecipe(x, columns, epsilon, of_batch, torch.is_grad_enabled(), (version_of(x), 0)))


def numbers_of(x: Any) -> Any:
    """A normalization that waits, as it is read; anything else as it is."""
    return x.recipe.read() if isinstance(x, LazyNorm) else x


def _lazy(recipe: NormRecipe) -> Tensor:
    x = recipe.x
    norm = tensor_without_memory(LazyNorm, x.shape, x.stride(), x.dtype, x.device)
    norm.recipe = _watched(recipe)
    return norm


_WATCHERS = threading.local()


def _watched(recipe: NormRecipe) -> NormRecipe:
    if (watcher := getattr(_WATCHERS, "innermost", None)) is not None:
        # Weakly: what nobody can read any more need not be read before a write.
        watcher.waiting.append(ref(recipe))
    return recipe


class ReadBeforeWrites(TorchFunctionMode):
    """A reader of normalizations that wait, before anything writes to their input, or to what is added to them.

    Attributes:
        memories: the memories that were written to; see `memory_of`.
        has_read: whether it had to read one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.memories, self.has_read, self.waiting = set[int](), False, list[ref[NormRecipe]]()

    def __enter__(self) -> Self:
        _WATCHERS.innermost = self
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        _WATCHERS.innermost = None
        super().__exit__(*error)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        writes = args and (_writes_in_place(func) or (kwargs or {}).get("inplace"))
        if (memory := memory_of(args[0] if writes else (kwargs or {}).get("out"))) is not None:
            self.memories.add(memory)
            for recipe in [it for it in (weak() for weak in self.waiting) if it is not None and it.values is None]:
                if memory in (memory_of(recipe.x), memory_of(recipe.residual)):
                    recipe.read()
                    self.has_read = True
        return func(*args, **(kwargs or {}))


@lru_cache(4096)  # it is asked at each call of a function
def _writes_in_place(func: Callable[..., Any]) -> bool:
    name = getattr(func, "__name__", "")
    return name.endswith("_") if name[:2] != "__" else name[:3] == "__i" or name == "__setitem__"


def memory_of(x: Any) -> int | None:
    """The address of a tensor's memory, which its views share; None of an unread normalization, and of other things."""
    if isinstance(x, LazyNorm):
        x = x.recipe.values
    return x.untyped_storage().data_ptr() if isinstance(x, Tensor) else None


def version_of(x: Tensor | None) -> int:
    """The number of writes to a tensor, as autograd counts them; of tensors of inference mode nobody does."""
    return 0 if x is None or x.is_inference() else times_written(x)


def _sum(one: Any, other: Any, *, in_place: bool) -> Tensor | None:
    """The sum of an unread normalization and a tensor like it, to be computed when it is read; None for others."""
    if not _is_unread(one):
        if in_place or not _is_unread(other):
            return None
        one, other = other, one
    recipe = one.recipe
    # The op adds one tensor: of two normalizations that wait, also of one and itself, one is read.
    residual = numbers_of(other)
    if type(residual) is not Tensor or residual.shape != one.shape or residual.dtype != one.dtype:
        return None
    if torch.is_grad_enabled() != recipe.tracked or residual.device != recipe.x.device:
        return None
    versions = recipe.versions[0], version_of(residual)
    longer = NormRecipe(recipe.x, recipe.columns, recipe.epsilon, recipe.of_batch, recipe.tracked, versions, residual)
    if in_place:
        one.recipe = _watched(longer)
        return one
    return _lazy(longer)


def _is_unread(value: Any) -> bool:
    return isinstance(value, LazyNorm) and value.recipe.values is None and value.recipe.residual is None


_ACTIVATIONS: dict[Any, tuple[BatchActivation, bool]] = {
    **dict.fromkeys((F.relu, torch.relu, Tensor.relu), ("relu", False)),
    **dict.fromkeys((F.relu_, torch.relu_, Tensor.relu_), ("relu", True)),
    F.silu: ("silu", False),
    F.hardswish: ("hardswish", False),
}
"""The activation of functions of torch, and whether they write in place."""
_IN_PLACE = frozenset({Tensor.__iadd__, Tensor.add_})
_SUMS = _IN_PLACE | {Tensor.add, Tensor.__add__, Tensor.__radd__, torch.add}
_ASKED = "shape dtype device layout ndim is_cpu is_cuda is_meta is_sparse is_nested is_mkldnn is_quantized"
_ABOUT = frozenset(
    {
        *(getattr(Tensor, name).__get__ for name in _ASKED.split()),
        *(getattr(Tensor, name) for name in ("size", "dim", "numel", "is_floating_point", "is_complex", "__len__")),
    }
)
