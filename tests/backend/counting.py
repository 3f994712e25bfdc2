"""A backend that counts what its functions compute, and a look at what torch computes beside them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from burnlike import Cpu
from burnlike.backend import map_ops

TABLES = ("float_ops", "int_ops", "bool_ops", "module_ops", "activation_ops")


class Changed(Cpu):
    """`Cpu` with each function of its tables replaced by `change(name, function)`; equal only to itself."""

    def __init__(self, change: Callable[[str, Callable[..., Any]], Callable[..., Any]], **options: Any) -> None:
        super().__init__(**options)
        for table in TABLES:
            changed = map_ops(getattr(Cpu(), table), lambda name, it, table=table: change(f"{table}.{name}", it))
            self.__dict__[f"own_{table}"] = changed

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


for _table in TABLES:
    setattr(Changed, _table, property(lambda self, name=f"own_{_table}": self.__dict__[name]))


class Counting(Changed):
    """Counts the functions that ran; `inside` is above 0 while one does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(self._counted, **options)
        self.__dict__.update(log=[], inside=0)

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.__dict__["log"].append(name)
            self.__dict__["inside"] += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.__dict__["inside"] -= 1

        return counted

    @property
    def log(self) -> list[str]:
        """The names of the functions that ran, in order."""
        return self.__dict__["log"]


def through_numpy(value: Any) -> Any:
    """The same values in memory of their own, taken through NumPy, which takes no tensor that requires grad."""
    if isinstance(value, Tensor):
        return torch.from_numpy(np.array(value.numpy()))
    return type(value)(map(through_numpy, value)) if isinstance(value, tuple | list) else value


def leaving_torch(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that no history of torch's survives, and whose results are never views."""
    return lambda *args, **kwargs: through_numpy(function(*map(through_numpy, args), **kwargs))


class Beside(TorchDispatchMode):
    """Notes the aten operators that compute while no function of the backend runs.

    Views, copies and empty tensors calculate nothing.
    """

    MOVES = frozenset(
        {
            "copy_",
            "clone",
            "detach",
            "alias",
            "empty",
            "empty_like",
            "new_empty",
            "empty_strided",
            "result_type",
            "promote_types",
        }
    )

    def __init__(self, backend: Counting) -> None:
        super().__init__()
        self.backend, self.found = backend, list[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_view = func.is_view or func.overloadpacket.__name__ in (
            "_unsafe_view",
            "unsqueeze_",
            "squeeze_",
            "transpose_",
        )
        if not self.backend.__dict__["inside"] and not is_view and func.overloadpacket.__name__ not in self.MOVES:
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))
