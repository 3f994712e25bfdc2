"""Operators that make tensors: constants, counting, random numbers."""

from typing import Any

import torch
from torch import Tensor

from ...errors import BackendError
from .pointwise import add, mul, where
from .tables import TRANSLATIONS, WRITES, Sizes, Tables, at_least_1, like_rank, scalar, translate, translates

CPU = torch.device("cpu")


def _float(dtype: torch.dtype | None) -> torch.dtype:
    return dtype or torch.get_default_dtype()


def _device(device: torch.device | None) -> torch.device:
    return torch.device(device) if device is not None else torch.get_default_device()


def _made(t: Tables, size: Sizes, value: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    return t.full(size, value, _float(dtype), _device(device))


def _like(t: Tables, tensor: Tensor, size: Any, value: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    return t.full(size, value, dtype or tensor.dtype, device or tensor.device)


def _constant(name: str, value: int) -> None:
    translates(name)(lambda t, size, **options: _made(t, size, value, **options))
    translates(f"new_{name}")(lambda t, tensor, size, **options: _like(t, tensor, size, value, **options))
    translates(f"{name}_like")(lambda t, tensor, **options: _like(t, tensor, tensor.shape, value, **options))


_constant("zeros", 0)
_constant("ones", 1)
translate(
    full_like=lambda t, tensor, value, **options: _like(t, tensor, tensor.shape, value, **options),
    scalar_tensor=lambda t, value, **options: _made(t, (), value, **options),
)


@translates("full")
def full(t: Tables, size: Sizes, value: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    kinds = {bool: torch.bool, int: torch.int64}
    return t.full(size, value, dtype or kinds.get(type(value), torch.get_default_dtype()), _device(device))


@translates("arange")
def arange(
    t: Tables, start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, **_: Any
) -> Tensor:
    start, end = (0, start) if end is None else (start, end)
    whole = all(isinstance(it, int) for it in (start, end, step))
    dtype = dtype or (torch.int64 if whole else torch.get_default_dtype())
    count = max(0, -int(-(end - start) // step))
    places = t.int.arange(0, count, 1, torch.int64, _device(device))
    if not dtype.is_floating_point:
        return t.cast(add(t, mul(t, places, int(step)), int(start)), dtype)
    wide = t.int.cast(places, torch.float64)
    return t.cast(add(t, mul(t, wide, float(step)), float(start)), dtype)


def no_generator(name: str, generator: Any) -> None:
    """Refuse a generator of torch's: a backend draws from its own."""
    if generator is not None:
        raise BackendError(f"{name} with a torch generator: a backend that is not torch's draws from its own")


def _drawn(t: Tables, name: str, tensor: Tensor, first: float, second: float, generator: Any) -> Tensor:
    no_generator(name, generator)
    values = getattr(t.of(tensor), name)(list(tensor.shape) or [1], first, second, tensor.dtype, tensor.device)
    return like_rank(values, tensor)


translate(
    uniform=lambda t, x, low=0.0, high=1.0, *, generator=None: _drawn(t, "uniform", x, low, high, generator),
    normal_functional=lambda t, x, mean=0.0, std=1.0, *, generator=None: _drawn(t, "normal", x, mean, std, generator),
)


@translates("normal")
def normal(t: Tables, mean: Any, std: Any = 1.0, *, generator: Any = None) -> Tensor:
    wide = mean if isinstance(mean, Tensor) else mul(t, std, 0.0)
    wide = add(t, wide, mul(t, std, 0.0)) if isinstance(std, Tensor) else wide
    return add(t, mul(t, _drawn(t, "normal", wide, 0.0, 1.0, generator), std), mean)


@translates("bernoulli")
def bernoulli(t: Tables, tensor: Tensor, p: Any = None, *, generator: Any = None) -> Tensor:
    no_generator("bernoulli", generator)
    x = at_least_1(tensor)
    if p is None or isinstance(p, Tensor):
        chances = x if p is None else at_least_1(p)
        drawn = t.of(chances).uniform(list(x.shape), 0.0, 1.0, chances.dtype, x.device)
        return like_rank(t.cast(t.float.lower(drawn, chances), x.dtype), tensor)
    return like_rank(t.of(x).bernoulli(list(x.shape), float(p), x.dtype, x.device), tensor)


def _random(name: str, function: str) -> None:
    def drawn(t: Tables, size: Sizes, dtype: torch.dtype, device: Any, generator: Any) -> Tensor:
        no_generator(name, generator)
        values = getattr(t.float, function)(list(size) or [1], 0.0, 1.0, dtype, device)
        return values if len(size) else scalar(values)

    @translates(name)
    def made(t: Tables, size: Any, *, generator: Any = None, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
        return drawn(t, size, _float(dtype), _device(device), generator)

    @translates(f"{name}_like")
    def like(t: Tables, x: Tensor, *, generator: Any = None, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
        return drawn(t, x.shape, dtype or x.dtype, device or x.device, generator)


_random("rand", "uniform")
_random("randn", "normal")


@translates("native_dropout")
def native_dropout(t: Tables, tensor: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    x = at_least_1(tensor)
    if train is False or p == 0:
        return tensor.clone(), t.full(tensor.shape, True, torch.bool, tensor.device)
    kept = t.float.bernoulli(list(x.shape), 1 - p, x.dtype, x.device)
    scaled = t.float.mul(t.float.mul(x, kept), 1 / (1 - p) if p < 1 else 0.0)
    return like_rank(scaled, tensor), like_rank(t.cast(kept, torch.bool), tensor)


def rrelu_with_noise(
    t: Tables,
    write: Any,
    tensor: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Tensor:
    if not training:
        return TRANSLATIONS["leaky_relu"](t, tensor, (lower + upper) / 2)
    x = at_least_1(tensor)
    slopes = t.float.uniform(list(x.shape), lower, upper, x.dtype, x.device)
    factors = where(t, t.float.lower_equal(x, 0.0), slopes, t.full((), 1, x.dtype, x.device))
    write(noise, t.reshape(factors, noise.shape))
    return t.reshape(t.float.mul(x, factors), tensor.shape)


WRITES["rrelu_with_noise"] = rrelu_with_noise
