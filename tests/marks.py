"""Cases of a test that wait for `make test-slow`, or for `make test-weekly`."""

from typing import Any

import pytest


def slow(*cases: Any) -> list[Any]:
    return [_marked(it, pytest.mark.slow) for it in cases]


def weekly(*cases: Any) -> list[Any]:
    return [_marked(it, pytest.mark.weekly) for it in cases]


def _marked(case: Any, mark: pytest.MarkDecorator) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else [case]), marks=mark)
