"""A backend of your own: one that writes down which functions ran.

A backend is a small immutable object with the members of `burnlike.backend.Backend`: a device, two element types and
five tables of functions. Nothing has to be inherited. This one takes another backend's tables and puts a note in front
of each function, which is also how one would time them, count their bytes, or refuse some of them.

Run it with `python recording_backend.py`, where you have saved it, or in `examples` of a clone.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.backend import ActivationOps, Backend, BoolOps, FloatOps, IntOps, ModuleOps, map_ops

Table = TypeVar("Table")


class Recording:
    """`inner` with a log of the functions that ran.

    Attributes:
        inner: the backend that does the work.
        log: the functions by name, as in `float_ops.add`, in the order in which they ran. The one thing that changes.

    Example:
        >>> backend = Recording(Cpu())
        >>> x = Tensor.ones((2, 3), backend)
        >>> y = (x + 1.0).sum()
        >>> backend.log
        ['float_ops.ones', 'float_ops.add', 'float_ops.sum']
    """

    # __slots__ and __setattr__ together make the object immutable. Every Tensor refers to its backend, and burnlike
    # looks at the backend once and remembers what it found, so what it found must not change.
    __slots__ = ("_activation_ops", "_bool_ops", "_float_ops", "_int_ops", "_module_ops", "inner", "log")
    inner: Backend
    log: list[str]
    _float_ops: FloatOps
    _int_ops: IntOps
    _bool_ops: BoolOps
    _module_ops: ModuleOps
    _activation_ops: ActivationOps

    def __init__(self, inner: Backend) -> None:
        """Record what `inner` does."""
        # The tables are made once: the properties below are read by every check of a backend.
        members: dict[str, Any] = {
            "inner": inner,
            "log": [],
            "_float_ops": self._noted("float_ops", inner.float_ops),
            "_int_ops": self._noted("int_ops", inner.int_ops),
            "_bool_ops": self._noted("bool_ops", inner.bool_ops),
            "_module_ops": self._noted("module_ops", inner.module_ops),
            "_activation_ops": self._noted("activation_ops", inner.activation_ops),
        }
        for name, value in members.items():
            object.__setattr__(self, name, value)

    def _noted(self, table_name: str, table: Table) -> Table:
        # map_ops asks for a replacement of each function of the table, and gives a table of the same type back.
        def note(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            full_name = f"{table_name}.{name}"

            def noted(*args: Any, **kwargs: Any) -> Any:
                self.log.append(full_name)
                return function(*args, **kwargs)

            return noted

        return map_ops(table, note)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a backend can't be changed; make another one instead of setting {name!r}")

    # Two tensors fit together when their backends are equal. Here each object is its own backend (object's __eq__ and
    # __hash__, by identity): a log belongs to one. A backend without a log would compare by value, as Cpu does.

    def __repr__(self) -> str:
        return f"Recording({self.inner!r})"

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.inner.device

    @property
    def float_dtype(self) -> torch.dtype:
        """The element type of new Float tensors."""
        return self.inner.float_dtype

    @property
    def int_dtype(self) -> torch.dtype:
        """The element type of new Int tensors, indices among them."""
        return self.inner.int_dtype

    @property
    def name(self) -> str:
        """As in `recording<torch<cpu>>`: a backend around another one names both."""
        return f"recording<{self.inner.name}>"

    @property
    def ad_enabled(self) -> bool:
        """False: what tracks is `Autodiff(Recording(Cpu()))`, which takes its functions from the tables below."""
        return False

    @property
    def float_ops(self) -> FloatOps:
        """The functions of Float tensors."""
        return self._float_ops

    @property
    def int_ops(self) -> IntOps:
        """The functions of Int tensors."""
        return self._int_ops

    @property
    def bool_ops(self) -> BoolOps:
        """The functions of Bool tensors."""
        return self._bool_ops

    @property
    def module_ops(self) -> ModuleOps:
        """Convolutions, pools, attention, linear algebra, signals."""
        return self._module_ops

    @property
    def activation_ops(self) -> ActivationOps:
        """Activation functions."""
        return self._activation_ops

    def seed(self, seed: int) -> None:
        """Seed the inner backend's generator."""
        self.inner.seed(seed)

    def sync(self) -> None:
        """Wait for the inner backend's work."""
        self.inner.sync()

    def full_precision(self) -> "Recording":
        """A recording of the inner backend in full precision; itself where that is what it has."""
        wide = self.inner.full_precision()
        return self if wide == self.inner else Recording(wide)


def main() -> None:
    """Print what a small calculation and its gradient call."""
    backend = Recording(Cpu())
    x = Tensor.from_floats([[1.0, 2.0], [3.0, 4.0]], backend)
    print("x @ x + 1 =", (x.matmul(x) + 1.0).to_data())
    print("ran:", ", ".join(backend.log))

    # Autodiff goes around any backend. Derivatives are made of the same functions, so nothing more has to be written.
    tracked = Autodiff(Recording(Cpu()))
    w = Tensor.ones((2, 2), tracked).require_grad()
    loss = (w * w).sum()
    print("gradient of sum(w * w):", w.grad(loss.backward()))
    print("ran:", dict(Counter(tracked.inner_backend.log)))


if __name__ == "__main__":
    main()
