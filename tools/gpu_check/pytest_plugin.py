"""A plugin of pytest for the check: one case of each op first, and a line for each failure.

pytest loads it in each of its processes, by `-p tools.gpu_check.pytest_plugin`.
"""

import os
import re
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from .results import LINE_OF_REPORT

# In this order; opcheck, which takes the longest, comes after all.
GROUPS = (
    "test_every_op.py::test_cuda_is_near",
    "test_cuda_kernels.py",
    "test_norms_on_cuda.py",
    "test_convert.py",
    "test_gradient_squares.py",
    "test_masked_softmax.py",
    "test_bias_gelu.py",
    "/record/",
    "/data/",
    "/module/",
    "/backend/",
    "/train/test_job.py",
    "/tensor/",
    "/nn/",
    "/optim/",
    "/metrics/",
)
_LAST = "test_opcheck"
_BROKEN = pytest.StashKey[bool]()


class _Settings:
    """Does nothing, in the place of hypothesis's class."""

    register_profile = load_profile = staticmethod(lambda *_, **__: None)

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, test: Any) -> Any:
        return test


class _Anything(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name)

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    __or__ = __call__


def without_hypothesis() -> None:
    """Leave out tests that draw examples, where hypothesis is not installed: none of them needs a GPU."""
    module = _Anything("hypothesis")
    module.settings = _Settings
    module.given = lambda *_, **__: lambda _test: None
    sys.modules["hypothesis"] = module


if find_spec("hypothesis") is None:
    without_hypothesis()


def op_of(item: Any) -> str:
    """The op that a test is about, of its case or of its name; empty without one."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    raw = getattr(params.get("case"), "raw", None)
    if raw is not None:
        return raw._schema.name.removeprefix("burnlike::")
    return str(params.get("rule", ""))


def ordered(items: list[Any]) -> list[Any]:
    """Tests in the order in which they tell most: one of each op first, then by groups, in each op by op in turn."""
    turns: Counter[tuple[int, str, str]] = Counter()
    placed: list[tuple[tuple[int, int, int], Any]] = []
    for index, item in enumerate(items):
        op, function = op_of(item), item.nodeid.partition("[")[0]
        group = next((place for place, part in enumerate(GROUPS) if part in item.nodeid), len(GROUPS))
        group = len(GROUPS) + 1 if _LAST in item.nodeid else group
        turn = turns[group, function, op]
        turns[group, function, op] += 1
        is_first = group == 0 and turn == 0
        placed.append(((-1 if is_first else group, turn if op else 0, index), item))
    return [item for _, item in sorted(placed, key=lambda it: it[0])]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = ordered(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:  # pyright: ignore[reportReturnType]
    report = yield
    if call.excinfo is not None and report.failed:
        text = str(call.excinfo.value)
        report.user_properties.append((LINE_OF_REPORT, line_of(item, call.excinfo.typename, text)))
        item.stash[_BROKEN] = "CUDA error" in text and "out of memory" not in text
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:  # pyright: ignore[reportReturnType]
    result = yield
    # After an error of a kernel CUDA refuses all calls of the process: pytest-xdist starts another in its place.
    if item.stash.get(_BROKEN, False) and hasattr(item.config, "workerinput"):
        os._exit(1)
    return result


def line_of(item: Any, error: str, text: str) -> str:
    """A failure in one line: the op, its first tensor's shape and dtype, the largest difference, the test."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    words = [op_of(item), *_described(getattr(params.get("case"), "inputs", None))]
    differences = re.findall(r"Greatest absolute difference: (\S+)", text)
    what = f"differs by at most {differences[0]}" if differences else f"{error}: {text.strip().partition(chr(10))[0]}"
    return " ".join([*filter(None, words), f"{what} ({item.nodeid.removeprefix('tests/')})"])


def _described(inputs: Callable[[], list[Any]] | None) -> Iterator[str]:
    if inputs is not None:
        first = inputs()[0]
        yield f"{list(first.shape)} {str(first.dtype).removeprefix('torch.')}:"
