"""Every function of the float tables has a derivative over a backend that leaves torch: torch's, to 1e-6."""

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from typing_extensions import get_protocol_members

from burnlike import Autodiff
from burnlike.backend import TorchActivationOps, TorchFloatOps, TorchModuleOps
from burnlike.backend.differentiable import WITHOUT_HISTORY
from burnlike.backend.tables import TABLES
from burnlike.errors import BackendError
from tests.backend.counting import Changed, leaving_torch
from tests.tensor.api.test_api_table import CASES
from tests.tensor.test_vectors import GROUPS
from tests.vectors.cases import run

TORCHS = {"float_ops": TorchFloatOps(), "module_ops": TorchModuleOps(), "activation_ops": TorchActivationOps()}
NAMES = [f"{table}.{name}" for table in TORCHS for name in sorted(get_protocol_members(TABLES[table]))]
# Their derivatives need triangular systems, which the tables don't have: an error by name.
NO_DERIVATIVE = {"module_ops.lu", "module_ops.qr", "module_ops.svd"}
# They give no numbers with a derivative: Bool, Int, or what is on the host, and what is drawn or only made.
NOT_FLOAT = {
    *("any", "any_dim", "all", "all_dim", "argmax", "argmin", "argsort", "argtopk", "bounds", "categorical"),
    *("equal", "not_equal", "greater", "greater_equal", "lower", "lower_equal", "is_nan", "is_inf", "is_finite"),
    *("is_close", "all_close", "contains_nan", "truth", "read_bytes", "read_item", "read_list", "quantize"),
    "rremainder",  # torch has no derivative of it either
    *("from_data", "empty", "zeros", "ones", "full", "eye", "uniform", "normal", "bernoulli", "cosine_window"),
}
REACHED_ON_TWO_DEVICES = {"float_ops.to_device"}
OTHER_BACKEND = Changed(leaving_torch)


ROWS = torch.tensor([[0.5, -1.5, 2.0], [1.25, 0.75, -0.25]])
# What no case calls with floats.
MORE: dict[str, Any] = {
    "float_ops.movedim": (ROWS, 0, 1),
    "float_ops.pad_edge": (ROWS, [(1, 2), (2, 1)]),
    "float_ops.pad_reflect": (ROWS, [(1, 0), (2, 1)]),
    "float_ops.rpowi": (ROWS, 2.0),
    "float_ops.take": (ROWS, 1, torch.tensor([[0, 2], [2, 2]])),
    "float_ops.unsqueeze_dim": (ROWS, 1),
}


@cache
def calls() -> dict[str, list[tuple[Any, Any]]]:
    """What the functions are called with by the API's cases and vectors, up to three calls each."""
    found: dict[str, list[tuple[Any, Any]]] = defaultdict(list, {name: [(it, {})] for name, it in MORE.items()})

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def note(*args: Any, **kwargs: Any) -> Any:
            if len(found[name]) < 3:
                found[name].append((args, kwargs))
            return function(*args, **kwargs)

        return note

    backend = Changed(noted)
    for case in CASES.values():
        case(backend)
    for records in GROUPS.values():
        for record in records[:3]:
            run(record, Autodiff(backend) if "program" in record else backend)
    return found


def tracked_copies(value: Any, leaves: list[Tensor]) -> Any:
    """`value` with floats in float64 that require grad."""
    if isinstance(value, Tensor):
        if not value.is_floating_point():
            return value
        leaves.append(value.detach().double().requires_grad_())
        return leaves[-1]
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(tracked_copies(it, leaves) for it in value)
    return value


def gradients(function: Callable[..., Any], args: Any, kwargs: Any, again: bool) -> list[Tensor | None]:
    """Gradients of a weighted sum of the results; `again`: of the sum of their squares too."""
    leaves: list[Tensor] = []
    results = function(*tracked_copies(args, leaves), **kwargs)
    results = [results] if isinstance(results, Tensor) else list(results) if isinstance(results, list | tuple) else []
    parts = [
        (it.nan_to_num(0.0, 0.0, 0.0) * torch.arange(1.0, it.numel() + 1).sin().to(it).reshape(it.shape)).sum()
        for it in results
        if isinstance(it, Tensor) and it.requires_grad
    ]
    if not parts:
        return []
    found = torch.autograd.grad(sum(parts), leaves, allow_unused=True, create_graph=again)  # pyright: ignore
    return list(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_its_derivative_is_torchs(name: str) -> None:
    table, function = name.split(".")
    if function in NOT_FLOAT | WITHOUT_HISTORY or name in REACHED_ON_TWO_DEVICES:
        return
    assert calls()[name], "neither a case nor a vector calls it"
    own: Any = getattr(getattr(Autodiff(OTHER_BACKEND), table), function)
    reached = 0
    for args, kwargs in calls()[name]:
        try:
            expected = gradients(getattr(TORCHS[table], function), args, kwargs, again=False)
        except (RuntimeError, IndexError):
            continue  # a vector that must fail
        if name in NO_DERIVATIVE:
            with pytest.raises(BackendError, match="is not made of functions of the backend's tables"):
                gradients(own, args, kwargs, again=False)
            return
        found = gradients(own, args, kwargs, again=False)
        for one, other in zip(found, expected, strict=True):
            # No derivative and one of 0 are the same.
            if one is None or other is None:
                assert one is None or not one.any()
                assert other is None or not other.any()
                continue
            reached += 1
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6, equal_nan=True)
    assert reached, "no call of it has a derivative"
