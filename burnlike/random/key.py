"""Random keys: the program passes them around, and random numbers depend on them alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from .._torch_compat import pytree
from ..errors import ArgumentError

N = TypeVar("N", int, Tensor)
WORD = 2**32 - 1
"""A word of 32 bits, all set."""
_MULTIPLIER = 0xD256D193 - 2**32  # congruent modulo 2**32, and small enough
_WEYL = 0x9E3779B9
_ROUNDS = 10


def philox(counter: N, counter_high: N, key: N) -> tuple[N, N]:
    """Philox2x32-10: two random words for each counter of two words, under a key (Salmon et al. 2011, section 4.3).

    Words have 32 bits. It is written for Python's numbers and for int64 tensors alike, which are broadcast, and no
    product leaves 64 bits.
    """
    left, right = counter, counter_high
    for _ in range(_ROUNDS):
        product = left * _MULTIPLIER
        left, right = ((product >> 32) + left) ^ key ^ right, product & WORD
        key = (key + _WEYL) & WORD
    return left, right


@torch.library.custom_op("burnlike::philox", mutates_args=())
def traced_philox(counter: Tensor, counter_high: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """`philox` as one op, for code that torch.compile traces: inductor would write out its many operations anew for
    each use of the result.
    """
    return philox(counter, counter_high, key)


@traced_philox.register_fake
def _(counter: Tensor, counter_high: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    shape = torch.broadcast_shapes(counter.shape, counter_high.shape, key.shape)
    return counter.new_empty(shape), counter.new_empty(shape)


@traced_philox.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *words: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    rank = max(tensor.dim() - (dim is not None) for tensor, dim in zip(words, in_dims, strict=True))
    aligned = []
    for tensor, dim in zip(words, in_dims, strict=True):
        if dim is not None:
            tensor = tensor.movedim(dim, 0)
            tensor = tensor.reshape(tensor.shape[0], *[1] * (rank + 1 - tensor.dim()), *tensor.shape[1:])
        aligned.append(tensor)
    return traced_philox(*aligned), (0, 0)


# What a key is used for, so that the numbers it draws tell nothing of the keys that are made from it.
_DRAW, _SPLIT, _FOLD, _GENERATOR = 0, 0x6A09E667, 0xBB67AE85, 0x3C6EF372


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """An explicit source of randomness: equal keys give equal numbers, and keys made from one key differ.

    Its numbers are a function of the seed and of their place in the result, so they are the same in eager and in
    compiled code and on every device. It is a pytree: a Parameter may hold one (`Parameter(False, Key(0))`), and `vmap`
    maps over one whose seed is a tensor of seeds.

    Args:
        seed: any whole number; its low 64 bits count. Or an int64 tensor, as it is in compiled code and in a Parameter.

    Example:
        >>> key, other = Key(0).split(2)
        >>> torch.equal(key.rand((3,)), key.rand((3,)))
        True
        >>> key == other
        False
    """

    seed: int | Tensor

    def __post_init__(self) -> None:
        if isinstance(self.seed, int) and not torch.compiler.is_compiling():  # there, it came from here
            object.__setattr__(self, "seed", (self.seed + 2**63) % 2**64 - 2**63)  # frozen: written here alone

    def split(self, count: int = 2) -> "tuple[Key, ...]":
        """`count` new keys; this one should not be used after that."""
        return tuple(self._child(index, _SPLIT) for index in range(count))

    def fold_in(self, number: int | Tensor) -> "Key":
        """The new key for `number`, of a layer, a step, a rank; its low 32 bits count."""
        return self._child(number & WORD, _FOLD)

    def rand(
        self, shape: Sequence[int], *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        """Uniform numbers in [0, 1), multiples of the distance of `dtype`'s (floating-point) numbers below 1."""
        float_dtype = dtype or torch.get_default_dtype()
        # As many random bits as the dtype has digits: more would be rounded, and could give 1.
        digits = 1 - round(math.log2(torch.finfo(float_dtype).eps))
        count = math.prod(shape)
        if digits > 32:
            high, low = self._words(torch.arange(count, device=device), _DRAW)
            bits = ((high >> 5) << 26) + (low >> 6)
        else:
            words = self._words(torch.arange((count + 1) // 2, device=device), _DRAW)
            bits = torch.stack(words, dim=-1).reshape(-1)[:count] >> (32 - digits)
        return bits.to(float_dtype).mul(2.0**-digits).reshape(list(shape))

    def randn(
        self, shape: Sequence[int], *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        """Normal numbers of mean 0 and variance 1 (Box and Muller 1958); arguments as those of `rand`.

        A compiler may round them differently in the last digit.
        """
        float_dtype = dtype or torch.get_default_dtype()
        wide = torch.promote_types(float_dtype, torch.float32)
        radius, angle = self.rand((2, *shape), dtype=wide, device=device).unbind()
        # log1p(-u), since u may be 0 and is never 1.
        return ((-2 * torch.log1p(-radius)).sqrt() * (2 * math.pi * angle).cos()).to(float_dtype)

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A generator on `device` that starts at this key; its numbers are others than those of `rand`.

        Raises:
            ArgumentError: torch.compile is tracing, which can make no generator.
        """
        if torch.compiler.is_compiling():
            raise ArgumentError("compiled code can't make a torch.Generator: draw by key.rand(shape), key.randn(shape)")
        return torch.Generator(device).manual_seed(int(self._child(0, _GENERATOR).seed))

    def _child(self, number: Any, purpose: int) -> "Key":
        high, low = self._words(number, purpose)
        return Key((high << 32) + low if isinstance(high, int) else ((high ^ 2**31) - 2**31 << 32) + low)

    def _words(self, counter: Any, purpose: int) -> tuple[Any, Any]:
        """Two random words for each number in `counter`; of `purpose`."""
        seed: Any = self.seed
        compiling = torch.compiler.is_compiling()
        if compiling:  # numbers would be compiled anew for each value
            seed, counter = _tensor(seed), _tensor(counter)
        if isinstance(seed, Tensor) and isinstance(counter, Tensor):
            seed = seed.to(counter.device)
        words = (counter, (seed >> 32) & WORD, (seed & WORD) ^ purpose)
        return traced_philox(*words) if compiling else philox(*words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self._value() == other._value()

    def __hash__(self) -> int:
        return hash(int(self.seed))

    def _value(self) -> Any:
        return self.seed.tolist() if isinstance(self.seed, Tensor) else self.seed


def _with_name(key: Any) -> tuple[list[tuple[Any, Any]], None]:
    return [(pytree.GetAttrKey("seed"), key.seed)], None


pytree.register_pytree_node(
    Key,
    lambda key: ([key.seed], None),
    lambda seeds, _: Key(*seeds),
    serialized_type_name="burnlike.mlax.Key",
    flatten_with_keys_fn=_with_name,
)


def _tensor(number: int | Tensor) -> Tensor:
    return number if isinstance(number, Tensor) else torch.full((), number, dtype=torch.int64)


def uniform(rng: Key | torch.Generator, like: Tensor) -> Tensor:
    """Uniform numbers of the shape and on the device of `like`, in float32."""
    if isinstance(rng, Key):
        return rng.rand(like.shape, dtype=torch.float32, device=like.device)
    return torch.rand(like.shape, generator=rng, device=like.device)


def normal(rng: Key | torch.Generator | None, like: Tensor) -> Tensor:
    """Normal numbers of the shape, on the device and in the dtype of `like`; None draws by torch's global generator."""
    if rng is None:
        return torch.randn_like(like)
    if isinstance(rng, Key):
        return rng.randn(like.shape, dtype=like.dtype, device=like.device)
    return torch.randn(like.shape, generator=rng, dtype=like.dtype, device=like.device)
