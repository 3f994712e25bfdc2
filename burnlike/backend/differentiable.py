"""Tables under Autodiff: functions that are not torch's get torch's derivative, computed by the backend's functions.

A table's function and torch's of the same name compute the same. So the backward pass of a function runs torch's on the
same operands, over the backend (`torch_calls`), and differentiates that: each step of it, and of its derivative, is a
function of the backend's tables.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction

from ..errors import BackendError
from .tables import map_ops
from .tables.creation import at_least_float32
from .tables.signal import centered, frames_of, signal_of
from .torch_calls import resting, through
from .torch_calls.tables import tensors_in

# Their results don't depend on the operand's values, or are meant to have no history.
WITHOUT_HISTORY = frozenset(
    {*("ones_like", "zeros_like", "full_like", "empty_like", "one_hot"), *("detach", "to_host", "quantization_scales")}
)


def differentiable(name: str, backend: Any, torchs: type) -> Any:
    """A table with a derivative for each function that is not torch's; torch's own table as it is.

    Args:
        name: of the table, such as `float_ops`.
        backend: whose table it is.
        torchs: the class of the same table in terms of torch, whose functions torch can differentiate.
    """
    table = getattr(backend, name)
    if type(table) is torchs:
        return table

    def change(function_name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        reference = getattr(torchs, function_name, None)
        if function is reference:
            return function
        full_name = f"{name}.{function_name}"
        return _Tracked(full_name, function, _REFERENCES.get(full_name, reference), backend)

    return map_ops(table, change)


class _Tracked:
    """A function of a backend. Its own derivative, a `torch.autograd.Function`, comes before torch's."""

    def __init__(self, name: str, function: Callable[..., Any], reference: Any, backend: Any) -> None:
        self.name = name
        self.function = function
        self.reference = reference
        self.backend = backend
        self.takes_tracked = True
        self.has_no_history = name.rpartition(".")[2] in WITHOUT_HISTORY

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.function(*args, **kwargs)
        with resting():
            tracked = [tensor for tensor in tensors_in((args, kwargs)) if tensor.requires_grad]
            if not tracked or self.has_no_history or not torch.is_grad_enabled():
                return self._untracked(args, kwargs)
            result = self._with_its_own(args, kwargs)
        floats = [tensor for tensor in tensors_in(result) if tensor.is_floating_point()]
        if not floats or any(isinstance(tensor.grad_fn, BackwardCFunction) for tensor in floats):
            return result
        if self.reference is None:
            raise BackendError(
                f"{self.name}: torch has no such function, so it has no derivative. Give it one, by a"
                " torch.autograd.Function (docs/backends.md), or call it on detached tensors or in torch.no_grad()"
            )
        derived = iter(_Derived.apply(_Call(self, args, kwargs, [tensor.detach() for tensor in floats]), *tracked))
        return _replaced(result, lambda it: next(derived) if it.is_floating_point() else it)

    def _untracked(self, args: Any, kwargs: Any) -> Any:
        plain, named = _replaced((args, kwargs), lambda it: it.detach() if it.requires_grad else it)
        return self.function(*plain, **named)

    def _with_its_own(self, args: Any, kwargs: Any) -> Any:
        """The result, with history where the function has a derivative of its own."""
        if self.takes_tracked:
            try:
                return self.function(*args, **kwargs)
            except RuntimeError as error:  # NumPy takes no tensor that requires grad
                if "requires grad" not in str(error):
                    raise
                self.takes_tracked = False
        return self._untracked(args, kwargs)


class _Call:
    """One call of a function: what it was called with, and its results."""

    def __init__(self, tracked: _Tracked, args: Any, kwargs: Any, results: list[Tensor]) -> None:
        self.tracked, self.results = tracked, results
        # The operands that require grad are kept by autograd.
        self.args, self.kwargs = _replaced((args, kwargs), lambda it: _OPERAND if it.requires_grad else it)

    def again(self, operands: list[Tensor]) -> list[Tensor]:
        """The results as torch's function of the same name computes them."""
        following = iter(operands)

        def filled(value: Any) -> Any:
            return next(following) if value is _OPERAND else value

        args, kwargs = _mapped((self.args, self.kwargs), filled)
        return [tensor for tensor in tensors_in(self.tracked.reference(*args, **kwargs)) if tensor.is_floating_point()]


_OPERAND = object()


class _Derived(Function):
    """The results of a call, with torch's derivative over the backend."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *operands: Tensor) -> Any:
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands)
        # Not kept: results that their own graph held would never be freed.
        results, call.results = tuple(call.results), []
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        again, call = torch.is_grad_enabled(), ctx.call
        with torch.enable_grad(), through(call.tracked.backend):
            # A place of its own in the graph: what the operands were made of is none of this function's.
            operands = [_alias(tensor) if again else tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            pairs = [
                (result, grad)
                for result, grad in zip(call.again(operands), grads, strict=True)
                if grad is not None and result.requires_grad
            ]
            if not pairs:
                return (None, *(None for _ in operands))
            results, grad_outputs = zip(*pairs, strict=True)
            grad_inputs = torch.autograd.grad(results, operands, grad_outputs, create_graph=again, allow_unused=True)
        return (None, *grad_inputs)


_alias: Any = torch.ops.aten.alias.default


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(_mapped(it, change) for it in value)
    if isinstance(value, dict):
        return {key: _mapped(it, change) for key, it in value.items()}
    return change(value)


def _replaced(value: Any, change: Callable[[Tensor], Any]) -> Any:
    return _mapped(value, lambda it: change(it) if isinstance(it, Tensor) else it)


# Fourier transforms without complex numbers, which tables don't have: products with matrices of cosines and sines. For
# derivatives only, since they take n^2 steps where a transform takes n log n.


def _waves(rows: int, columns: int, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """cos and -sin of 2 pi k n / length, `[rows, columns]`."""
    places = torch.arange(rows, device=like.device)[:, None] * torch.arange(columns, device=like.device)
    angles = (places % length).double() * (2 * math.pi / length)
    return angles.cos().to(like.dtype), -angles.sin().to(like.dtype)


def _cut(tensor: Tensor, dim: int, length: int) -> Tensor:
    """`tensor` with `dim` last, truncated to `length`; zeros behind the end add nothing."""
    moved = tensor.movedim(dim, -1)
    return moved[..., :length]


def rfft(tensor: Tensor, dim: int, length: int) -> tuple[Tensor, Tensor]:
    x = _cut(tensor, dim, length)
    cosines, sines = _waves(x.shape[-1], length // 2 + 1, length, tensor)
    return (x @ cosines).movedim(-1, dim), (x @ sines).movedim(-1, dim)


def cfft(real: Tensor, imaginary: Tensor, dim: int, length: int) -> tuple[Tensor, Tensor]:
    x, y = _cut(real, dim, length), _cut(imaginary, dim, length)
    cosines, sines = _waves(x.shape[-1], length, length, real)
    return (x @ cosines - y @ sines).movedim(-1, dim), (x @ sines + y @ cosines).movedim(-1, dim)


def irfft(real: Tensor, imaginary: Tensor, dim: int, length: int) -> Tensor:
    x, y = _cut(real, dim, length // 2 + 1), _cut(imaginary, dim, length // 2 + 1)
    bins = x.shape[-1]
    cosines, sines = _waves(bins, length, length, real)
    # All but the first, and for even lengths the last of them, stand for two conjugate ones.
    place = torch.arange(bins, device=real.device)
    weights = torch.where((place == 0) | (2 * place == length), 1.0, 2.0).to(real.dtype) / length
    return ((x * weights) @ cosines + (y * weights) @ sines).movedim(-1, dim)


def stft(
    signal: Tensor, window: Tensor | None, n_fft: int, hop: int, win_length: int, center: bool, onesided: bool
) -> Tensor:
    frames = frames_of(signal, window, n_fft, hop, win_length, center)
    cosines, sines = _waves(n_fft, n_fft // 2 + 1 if onesided else n_fft, n_fft, frames)
    return torch.stack([frames @ cosines, frames @ sines], -1).to(signal.dtype)


def istft(
    spectrum: Tensor,
    window: Tensor | None,
    n_fft: int,
    hop: int,
    win_length: int,
    center: bool,
    onesided: bool,
    length: int | None,
) -> Tensor:
    wide = at_least_float32(spectrum)
    frames = irfft(wide[..., 0], wide[..., 1], 2, n_fft)
    weights = centered(window, n_fft, win_length, wide)
    return signal_of(frames, weights, hop, center, length).to(spectrum.dtype)


_REFERENCES = {f"module_ops.{function.__name__}": function for function in (rfft, irfft, cfft, stft, istft)}
"""By the function of `SignalOps` that they compute as well, and whose derivative they give."""
