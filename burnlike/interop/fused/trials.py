"""The proof that another forward gives what a module's own gives: tried on a stand-in with random weights.

What a class computes is not in its name: one RMSNorm adds 1 to its weight, another does not. So a forward takes the
place of another only after both gave the same: values, dtypes, gradients and use of random numbers, in training and
in evaluation, for each dtype, for tiny, usual and huge inputs. The stand-in has the module's class and attributes, none
of its hooks, and weights of its own, so that nothing of the module is read, run or changed; it works for modules on
`meta`.
"""

import copy
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.fake_tensors import with_values

Pair = tuple[torch.dtype, torch.dtype]
"""The dtypes of an input and of the weights."""

Proven = tuple[tuple[Pair, torch.dtype], ...]
"""For which a forward gives the stock results, and the dtype of these."""

CALLS = "_burnlike_calls"
"""The attribute of a stand-in whose list says which of its children were called, in order."""

_REQUIRED = [(it, it) for it in (torch.float32, torch.bfloat16, torch.float16)]
_OTHERS = [(torch.bfloat16, torch.float32), (torch.float16, torch.float32), (torch.float64, torch.float64)]
_MAGNITUDES = (1e-5, 1.0, 1e3)
# Orders of the same operations, relative to the largest result: about 80 roundings of float32.
_TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-5}
_DIFFERENT = "its forward gives other results than the fused op"


def stand_in(module: nn.Module, children: Mapping[str, nn.Module] | None = None) -> nn.Module:
    """A module of the same class and attributes, without its hooks, parameters and children; with the given ones."""
    # Without the class's `__init__`, whose arguments nobody knows here.
    twin = object.__new__(type(module))
    nn.Module.__init__(twin)
    private = {*vars(twin), "forward"}
    for name, value in vars(module).items():
        if name not in private and not name.startswith("_burn"):
            # Containers are copied, since a forward may append to them.
            vars(twin)[name] = copy.copy(value) if type(value) in (list, dict, set) else value
    for name, child in (children or {}).items():
        twin.add_module(name, child)
    return twin


def with_weights(twin: nn.Module, shapes: Mapping[str, torch.Size]) -> nn.Module:
    """The stand-in with random float32 parameters of these shapes."""
    generator = torch.Generator().manual_seed(0)
    for name, shape in shapes.items():
        twin.register_parameter(name, nn.Parameter(2 * torch.randn(shape, generator=generator, dtype=torch.float32)))
    return twin


def numbers(*sizes: int) -> Tensor:
    """Random values in float32, the same at each call."""
    return 2 * torch.randn(sizes, generator=torch.Generator().manual_seed(1), dtype=torch.float32)


@contextmanager
def untouched_state() -> Iterator[None]:
    """Run trials with torch's usual settings, and leave settings and generators of random numbers as they were.

    What is proved is kept with the class, so it may not depend on where it was proved first.
    """
    # A forward that draws by NumPy has loaded it.
    numpy: Any = sys.modules.get("numpy")
    python_state, numpy_state = random.getstate(), None if numpy is None else numpy.random.get_state()
    with (
        with_values(),
        torch.random.fork_rng(devices=[]),
        torch.device("cpu"),
        torch.autocast("cpu", enabled=False),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        yield
    random.setstate(python_state)
    if numpy is not None:
        numpy.random.set_state(numpy_state)


Forward = Callable[[Any, Any], Any]


def proven_dtypes(
    make: Callable[[], nn.Module], stock: Forward, other: Forward, width: int, magnitudes: tuple[float, ...] = ()
) -> tuple[Proven, str]:
    """The dtypes of input and weights for which `other` gives what `stock` gives, and the dtype of the stock result.

    Of a stand-in in float32, which `make` gives, the same at each call, and inputs `[..., width]` of the usual and
    these `magnitudes`. It has to be the same for float32, bfloat16 and float16; else there are none, and the reason.
    """
    proven: dict[Pair, torch.dtype] = {}
    try:
        for pair in (*_REQUIRED, *_OTHERS):
            # Of the others there may be dtypes that it does not take.
            with suppress(Exception) if pair in _OTHERS else nullcontext():
                dtype = _same_values(make, stock, other, pair, width, (*_MAGNITUDES, *magnitudes))
                if dtype is not None:
                    proven[pair] = dtype
            if pair in _REQUIRED and pair not in proven:
                return (), _DIFFERENT
        is_same = _same_gradients(make, stock, other, width)
        return (tuple(proven.items()), "") if is_same else ((), _DIFFERENT)
    except Exception as error:  # a foreign forward may raise anything
        return (), f"it could not be tried: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _same_values(
    make: Callable[[], nn.Module], stock: Forward, other: Forward, pair: Pair, width: int, magnitudes: tuple[float, ...]
) -> torch.dtype | None:
    # Both of the rounded weights: the rounding of these is no error of a forward.
    module, exact = make().to(pair[1]), make().to(pair[1]).double()
    dtypes: set[torch.dtype] = set()
    for training in (False, True):
        module.train(training)
        exact.train(training)
        for sizes, magnitude in product(((2, 3, width), (5, width)), magnitudes):
            x = (numbers(*sizes) * magnitude).to(pair[0])
            with torch.no_grad():
                expected, actual = _with_state(stock, module, x), _with_state(other, module, x)
                if not expected or expected[1:] != actual[1:]:
                    return None
                result = expected[0]
                if not _is_near(result, actual[0].to(result.dtype), stock(exact, x.double())):
                    return None
            dtypes.add(result.dtype)
    return dtypes.pop() if len(dtypes) == 1 else None


def _with_state(forward: Forward, module: nn.Module, x: Tensor) -> tuple[Any, ...]:
    """The result, and what else the call did: to random numbers, to its input, to its children; () for no tensor."""
    # A copy, since a forward may write into its input, which the op does not do.
    passed = x.clone()
    random.seed(0)
    torch.default_generator.manual_seed(0)
    log: list[str] = vars(module).get(CALLS, [])  # hooks of children run in the order of their calls
    log.clear()
    result = forward(module, passed)
    if not isinstance(result, Tensor) or not torch.equal(passed, x):
        return ()
    # A list, as tensors in a tuple can't be compared with `!=`.
    state = (random.getstate(), torch.get_rng_state().view(torch.int64).tolist())
    return result, result.shape, state, tuple(log)


def _is_near(stock: Tensor, other: Tensor, exact: Tensor) -> bool:
    """True if two results of one dtype are equal within rounding, where `exact` is what float64 gives."""
    if not torch.equal(stock.isfinite(), other.isfinite()):
        return False
    dtype, finite = stock.dtype, stock.isfinite()
    stock, other, exact = (it.double()[finite] for it in (stock, other, exact))
    if stock.numel() == 0:
        return True
    if dtype in _TOLERANCES:
        tolerance = _TOLERANCES[dtype] * stock.abs().max()
        return bool((stock - other).abs().max() <= tolerance + torch.finfo(dtype).tiny)
    # 16 bits are not rounded more than by the stock code, which itself has to be near.
    info = torch.finfo(dtype)
    unit, least = info.eps * _size(exact), 16 * info.smallest_normal * info.eps
    stock_error, error = _size(stock - exact), _size(other - exact)
    return stock_error <= 4 * unit + least and error <= 1.5 * stock_error + unit / 4 + least


def _size(values: Tensor) -> float:
    return values.square().mean().sqrt().item()


def _same_gradients(make: Callable[[], nn.Module], stock: Forward, other: Forward, width: int) -> bool:
    gradients: list[list[Tensor]] = []
    for forward in (stock, other):
        module, x = make(), numbers(2, 3, width).requires_grad_()
        result = forward(module, x)
        if not result.requires_grad:
            return False
        # Weights that differ along the row: with equal ones, most of the gradient of a normalization cancels.
        leaves, weights = [x, *module.parameters()], torch.ones_like(result).cumsum(-1)
        gradients.append(list(torch.autograd.grad(result, leaves, weights, materialize_grads=True)))
    # Relative to the largest value: gradients of weights are sums over all rows, in another order.
    return all((a - b).abs().max() <= 1e-4 * a.abs().max() for a, b in zip(*gradients, strict=True))


def same_rotation(
    stock: Callable[..., Any], other: Callable[..., Any], tables: Callable[[], Sequence[Tensor]], *, with_dim: bool
) -> bool:
    """True if a function turns queries and keys `[2, 4, 3, 8]` as another does, by the tables of cosines and sines.

    `tables` gives them when it is called: where the trials run, new tensors have values.
    """

    def is_same_by(table: Tensor, dtype: torch.dtype, in_float: bool, dim: tuple[int, ...]) -> bool:
        query, key = numbers(2, 4, 3, 8), numbers(2, 2, 3, 8)
        if dim == (2,):
            query, key = query.transpose(1, 2), key.transpose(1, 2)
        inputs = [query.to(dtype), key.to(dtype), *table.to(torch.float32 if in_float else dtype).unbind()]
        expected, actual = stock(*inputs, *dim), other(*inputs, *dim)
        exact = stock(*(it.double() for it in inputs), *dim)
        return all(a.dtype == b.dtype and _is_near(a, b, c) for a, b, c in zip(expected, actual, exact, strict=True))

    def is_same(*options: Any) -> bool:
        return all(is_same_by(table, *options) for table in tables())

    return _holds(is_same, (False, True), ((1,), (2,)) if with_dim else ((),))


def same_attention(
    stock: Callable[..., Any], other: Callable[..., Any], module: Any, inputs: Callable[[], Sequence[Tensor]]
) -> bool:
    """True if a function attends as another does in bfloat16, from queries to keys and values, with a mask or without.

    `inputs` gives queries, keys, values and a mask in float32. The stock function returns more than the other's tensor.
    """

    def is_same(dtype: torch.dtype, scale: float | None, cap: float, masked: bool, size: float) -> bool:
        if dtype != torch.bfloat16:
            return True
        query, key, value, mask = (it.to(dtype) for it in inputs())
        arguments = [query * size, key, value, mask if masked else None]
        options = {"dropout": 0.0, "scaling": scale, "softcap": cap}
        expected, actual = stock(module, *arguments, **options)[0], other(module, *arguments, **options)
        exact = stock(module, *(None if it is None else it.double() for it in arguments), **options)[0]
        return expected.shape == actual.shape and expected.dtype == actual.dtype and _is_near(expected, actual, exact)

    return _holds(is_same, (None, 0.3), (1.0, 30.0), (False, True), _MAGNITUDES)


def same_loss(stock: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """True if two losses of language models are the same, for each dtype of logits and way to divide."""

    def is_same(dtype: torch.dtype, keywords: dict[str, int]) -> bool:
        labels, logits = torch.tensor([[1, 2, 4, 0], [2, 2, 3, 1]]), numbers(2, 4, 5).to(dtype)
        expected, actual = (it(logits, labels, vocab_size=5, **keywords) for it in (stock, other))
        return expected.dtype == actual.dtype and _is_near(expected, actual, expected.double())

    return _holds(is_same, ({}, {"num_items_in_batch": 5}, {"ignore_index": 2}))


def _holds(is_same: Callable[..., bool], *options: Sequence[Any]) -> bool:
    """True if `is_same` holds for each dtype and combination of options."""
    try:
        with untouched_state(), torch.no_grad():
            return all(is_same(dtype, *chosen) for dtype, _ in _REQUIRED for chosen in product(*options))
    except Exception:  # a foreign function may raise anything
        return False
