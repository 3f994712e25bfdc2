"""One numeric case for each name of the API that no vector has: name -> function(backend) -> (got, expected) pairs.

Expected numbers are worked out by hand or calculated by torch in float64.
"""

from collections.abc import Callable
from typing import Any

import torch

from burnlike import Autodiff, Backend, Bool, Float, Int, Tensor
from burnlike.tensor import TensorData

Pairs = list[tuple[Any, Any]]
Case = Callable[[Any], Pairs]
CASES: dict[str, Case] = {}


def case(*names: str) -> Callable[[Case], Case]:
    """Register a case for these names; `square (Int)` is the row of one kind where a name has several rows."""

    def register(function: Case) -> Case:
        for name in names:
            assert name not in CASES, name
            CASES[name] = function
        return function

    return register


def floats(data: Any, backend: Backend) -> Any:
    return Tensor(torch.tensor(data, dtype=torch.float32), backend)


def ints(data: Any, backend: Backend) -> Any:
    return Tensor(torch.tensor(data, dtype=torch.int64), backend)


def bools(data: Any, backend: Backend) -> Any:
    return Tensor(torch.tensor(data, dtype=torch.bool), backend)


def double(data: Any) -> torch.Tensor:
    return torch.tensor(data, dtype=torch.float64)


def tracking(backend: Any) -> Any:
    """The backend, or Autodiff of it if it does not track."""
    return backend if backend.ad_enabled else Autodiff(backend)


def check(pairs: Pairs) -> None:
    """Compare: tensors by kind, shape and value, all else by equality."""
    assert pairs, "a case without a comparison"
    for got, expected in pairs:
        if isinstance(got, Tensor):
            check_tensor(got, torch.as_tensor(expected))
        elif isinstance(got, TensorData):
            wanted = torch.as_tensor(expected)
            assert list(got.shape) == list(wanted.shape)
            assert got.to_vec() == wanted.reshape(-1).tolist()
        elif isinstance(got, float):
            assert abs(got - expected) < 1e-5, f"{got} != {expected}"
        else:
            assert got == expected
            assert type(got) is type(expected)


def check_tensor(got: Any, expected: torch.Tensor) -> None:
    """Float results within 1e-5, others exactly."""
    kind = Float if expected.dtype.is_floating_point else Bool if expected.dtype is torch.bool else Int
    assert got.spec.kind is kind
    inner = got.inner.detach()
    assert inner.shape == expected.shape
    assert got.spec.rank == expected.ndim
    torch.testing.assert_close(inner.double(), expected.double(), rtol=1e-5, atol=1e-6, equal_nan=True)
