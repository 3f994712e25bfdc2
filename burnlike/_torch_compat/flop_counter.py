"""Formulas for torch's counter of operations, given to it when it is imported: it imports triton, for 80 ms."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_COUNTER = "torch.utils.flop_counter"

_waiting: list[tuple[Any, Callable[..., int]]] = []


def register_flop_formula(op: Any, formula: Callable[..., int]) -> None:
    """Have `FlopCounterMode` count an op by a formula of its arguments, now or as soon as there is one."""
    if _COUNTER in sys.modules:
        sys.modules[_COUNTER].register_flop_formula(op)(formula)
        return
    if not _waiting:
        sys.meta_path.insert(0, _CounterFinder())
    _waiting.append((op, formula))


class _CounterFinder:
    """Finds torch's counter as Python does, and registers the formulas once it has run."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == _COUNTER else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            for op, formula in _waiting:
                module.register_flop_formula(op)(formula)
            _waiting.clear()

        spec.loader.exec_module = execute_and_register
        return spec
