"""The dispatch mode in which every aten operator is computed by a backend's tables."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch import Tensor

from ..._torch_compat.dispatch import COUNTS_AND_SHARES, TorchDispatchMode, current_mode, decomposition_of, schema_of
from ...errors import BackendError
from ...ops._function import references
from . import creation, layers, pointwise, reductions, shape
from .composed import Composed
from .tables import TRANSLATIONS, WRITES, Tables, tensors_in

_SUBJECTS = (creation, layers, pointwise, reductions, layers, shape)
"""The files whose translations are registered by being imported."""

_MOVES = frozenset(
    {
        *("alias", "detach", "lift_fresh", "lift_fresh_copy", "lift", "clone", "copy", "as_strided", "view_as_real"),
        *(*COUNTS_AND_SHARES, "is_same_size", "sym_size", "sym_numel", "sym_stride", "set_"),
        *("record_stream", "resolve_conj", "resolve_neg", "result_type"),
    }
)
"""Operators that calculate nothing: other handles of the same memory, copies of it, questions about it."""

_COPIES = frozenset({"clone", "copy", "lift_fresh_copy"})
_COMMUNICATION = ("c10d", "_c10d_functional", "_dtensor", "profiler")
_CREATED_EMPTY = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "empty_permuted"})


@contextlib.contextmanager
def over(backend: Any) -> Iterator[None]:
    """As `through` of this package."""
    inner = getattr(backend, "inner_backend", backend)
    if (running := _running()) is not None and running.tables.backend is inner:
        yield
        return
    if torch.compiler.is_compiling():
        raise BackendError(
            f"{inner!r}: torch.compile can't trace torch's functions and layers over a backend that is not torch's;"
            " call methods of Tensor and functions of burnlike.tensor there, or leave the layer out by"
            " torch.compiler.disable"
        )
    with _OverBackend(inner), Composed(), references():
        yield


@contextlib.contextmanager
def at_rest() -> Iterator[None]:
    """As `resting` of this package."""
    running = _running()
    if running is None:
        yield
        return
    running.rests += 1
    try:
        yield
    finally:
        running.rests -= 1


def _running() -> "_OverBackend | None":
    mode = current_mode()
    return mode if isinstance(mode, _OverBackend) else None


class _OverBackend(TorchDispatchMode):
    """Computes operators by the tables of one backend."""

    def __init__(self, backend: Any) -> None:
        super().__init__()
        self.tables = Tables(backend, self)
        self.rests = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if self.rests or func.namespace in _COMMUNICATION or name in _MOVES:
            if name in _COPIES and not self.rests:
                self.tables.backend.sync()  # what it copies may be computed later
            return func(*args, **kwargs)
        if name in _CREATED_EMPTY:  # nothing is computed, and what is written there must reach this memory
            return func(*args, **kwargs)
        if name.startswith("_foreach_"):
            operator = getattr(torch.ops.aten, name.removeprefix("_foreach_"))
            count = len(args[0])
            lists = [isinstance(argument, list | tuple) and len(argument) == count for argument in args]
            with self:
                results = [
                    operator(*(it[place] if many else it for it, many in zip(args, lists, strict=True)), **kwargs)
                    for place in range(count)
                ]
            return None if name.endswith("_") else results
        if schema_of(func).is_mutable:
            return self._write(func, name, args, kwargs)
        translation = TRANSLATIONS.get(name) if func.namespace == "aten" else None
        if translation is not None:
            return self._translated(func, translation, args, kwargs)
        composed = decomposition_of(func)
        result: Any = NotImplemented  # which is also what some of torch's decompositions give
        if composed is not None:
            with self:
                result = composed(*args, **kwargs)
        return self._refuse(func) if result is NotImplemented else result

    def _refuse(self, func: Any, why: str = "") -> NoReturn:
        raise BackendError(
            f"{self.tables.backend!r}: torch's {func} is not made of functions of the backend's tables{why}; compute it"
            " with methods of Tensor and functions of burnlike.tensor, or on a backend of torch's"
        )

    def _translated(self, func: Any, translation: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        kwargs = {key: value for key, value in kwargs.items() if key not in _LAYOUT}
        operands = list(tensors_in((args, kwargs)))
        for tensor in operands:  # others, such as DTensor, compute in a way of their own
            if type(tensor) not in (Tensor, torch.nn.Parameter, torch.nn.Buffer):
                raise BackendError(
                    f"{type(tensor).__name__}: a backend that is not torch's takes plain tensors and parameters"
                )
        plain, named = _plain(args), {key: _plain(value) for key, value in kwargs.items()}
        with torch.no_grad():
            try:
                result = translation(self.tables, *plain, **named)
            except (AttributeError, NotImplementedError, TypeError) as error:
                # The table of this kind lacks a function, or the translation an option.
                self._refuse(func, f" for these arguments ({error})")
            if any(it.alias_info is not None for it in schema_of(func).returns):
                # torch writes through views, and differentiates that by their strides: theirs is the operand's memory.
                # What the backend gave has the same elements, perhaps in memory of its own.
                result = func(*plain, **named)
        return _own(result, operands)

    def _write(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """An operator that writes: the same without writing, copied to where it writes."""
        if name in ("copy_", "copy_to"):
            self._store(args[0], self.tables.cast(_plain(args[1]), args[0].dtype))
            return args[0]
        if func.namespace not in ("aten", "prims"):
            raise BackendError(f"{self.tables.backend!r}: {func} is not torch's; the backend can't compute it")
        if name in _OTHER_FORM:
            return func(*args, **kwargs)
        if name in WRITES:
            return WRITES[name](self.tables, self._store, *_plain(args), **kwargs)
        targets = [kwargs.pop(it.name) for it in schema_of(func).arguments if it.is_out and it.name in kwargs]
        if targets:
            with self:
                computed = getattr(torch.ops.aten, name)(*args, **kwargs)
        elif name in ("zero_", "fill_"):
            targets, computed = [args[0]], self._filled(args[0], 0 if name == "zero_" else args[1])
        elif name.endswith("_") and not name.endswith("__"):
            targets, kwargs = [args[0]], dict(kwargs)
            with self:
                computed = getattr(torch.ops.aten, "normal_functional" if name == "normal_" else name[:-1])(
                    *args, **kwargs
                )
        else:
            composed = decomposition_of(func)
            if composed is None:
                raise BackendError(f"{self.tables.backend!r}: torch's {func} writes, and has no form without writing")
            with self:
                return composed(*args, **kwargs)
        results = [computed] if isinstance(computed, Tensor) else list(computed)
        for target, result in zip(targets, results, strict=True):
            if target.shape != result.shape and target.numel() == 0:
                target.resize_(result.shape)
            self._store(target, result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _store(self, target: Tensor, values: Tensor) -> None:
        self.tables.backend.sync()
        target.detach().copy_(values)

    def _filled(self, target: Tensor, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return self.tables.cast(_plain(value), target.dtype)
        return self.tables.full(target.shape, value, target.dtype, target.device)


_OTHER_FORM = frozenset({f"{name}_" for name in ("set", "resize", "_resize_output", "t", "transpose", "squeeze")})
_OTHER_FORM |= {f"{name}_" for name in ("unsqueeze", "swapaxes", "swapdims", "as_strided", "detach", "unflatten")}
"""Operators that give a tensor another shape or memory, and write no elements."""

_LAYOUT = ("memory_format", "layout", "pin_memory", "non_blocking")


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach() if value.requires_grad else value
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return [_plain(it) for it in value]
    return value


def _own(result: Any, operands: list[Tensor]) -> Any:
    """Results that are tensors of their own, without history, as torch expects them."""
    if isinstance(result, list | tuple):
        return type(result)(_own(it, operands) for it in result)
    if isinstance(result, Tensor) and (result.requires_grad or any(result is operand for operand in operands)):
        return result.detach()
    return result
