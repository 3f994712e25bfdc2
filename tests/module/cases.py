"""Which of the cases of `tests/vectors/module_core.json` a test shows."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def case(*ids: str) -> Callable[[F], F]:
    """Mark a test as the one that shows the cases `ids`; `test_golden_trees.py` sees that every case has its test."""

    def mark(function: F) -> F:
        function.case_ids = (*getattr(function, "case_ids", ()), *ids)
        return function

    return mark
