"""One of two processes that run each case under DDP and `fully_shard`. Run by test_layers_distributed.py."""

import faulthandler
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from burnlike.module import params
from tests.fsdp.models import whole

from .cases import CASES, Case, tensors_of
from .test_layers import leaf, weighted

RANKS = 2


class Scaled(nn.Module):
    """A layer without parameters behind a scale: what is to be distributed needs one."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.scale = nn.Parameter(torch.full((2,), 1.5, dtype=torch.float64))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """As the layer, with floats scaled."""
        scale = self.scale.mean()
        return self.layer(
            *(it * scale if isinstance(it, Tensor) and it.is_floating_point() else it for it in inputs), **named
        )


def made(case: Case) -> nn.Module:
    """The case's layer, with a parameter that gets a gradient."""
    layer = case.layer()
    return layer if any(it.requires_grad for it in layer.parameters()) else Scaled(layer)


def half(case: Case, rank: int) -> tuple[list[Any], dict[str, Any]]:
    """The half of the batch that a rank has: inputs as the case draws them, each rank's floats its own."""
    inputs, named = case.drawn()

    def of_rank(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return leaf(value * (1 + 0.25 * rank)) if value.is_floating_point() else value

    return [of_rank(it) for it in inputs], {name: of_rank(it) for name, it in named.items()}


def passed(layer: nn.Module, case: Case, rank: int) -> tuple[list[Tensor], list[Tensor | None]]:
    """Outputs of a forward pass, and the inputs' gradients of a backward pass."""
    inputs, named = half(case, rank)
    torch.manual_seed(rank)
    output = layer(*inputs, **named)
    loss = weighted(output)
    if loss.requires_grad:
        loss.backward()
    return [it.detach() for it in tensors_of(output)], [it.grad for it in inputs if isinstance(it, Tensor)]


def of_one_process(case: Case, rank: int) -> tuple[Any, dict[str, Tensor]]:
    """What one process computes: outputs and inputs' gradients of the rank's half, the mean gradient of both halves."""
    results, grads = [], []
    for half_of in range(RANKS):
        layer = made(case)
        results.append(passed(layer, case, half_of))
        grads.append({it.path: it.tensor.grad for it in params(layer) if it.tensor.grad is not None})
    mean = {path: sum((each[path] for each in grads), torch.zeros(())) / RANKS for path in grads[0]}
    return results[rank], mean


def check(case: Case, rank: int, wrap: Callable[[nn.Module], nn.Module]) -> None:
    """Compare a wrapped layer with what one process computes."""
    expected, grads = of_one_process(case, rank)
    layer = made(case)
    wrapped = wrap(layer)
    found = passed(wrapped, case, rank)
    for one, other in zip([*found[0], *found[1]], [*expected[0], *expected[1]], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
    found_grads = {it.path: whole(it.tensor.grad) for it in params(layer) if it.tensor.grad is not None}
    assert found_grads.keys() == grads.keys()
    for path, grad in grads.items():
        torch.testing.assert_close(found_grads[path], grad, rtol=1e-11, atol=1e-11, msg=lambda it, p=path: f"{p}: {it}")


def wrappings(mesh: DeviceMesh) -> dict[str, Callable[[nn.Module], nn.Module]]:
    """How a layer is distributed, by name; each is also the `not_in` of a case that can't be."""
    return {
        "ddp": DistributedDataParallel,
        "fsdp": lambda layer: fully_shard(layer, mesh=mesh),
    }


def main(folder: Path) -> None:
    """Write down what went wrong, by case and wrapping."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (RANKS,))
    found: dict[str, str] = {}
    for case in CASES:
        for name, wrap in wrappings(mesh).items():
            if name in case.not_in:
                continue
            dist.barrier()
            try:
                check(case, rank, wrap)
                found[f"{case.name}, {name}"] = ""
            except Exception:
                found[f"{case.name}, {name}"] = traceback.format_exc()
    (folder / f"found{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    sys.stdout.flush()
    # torch 2.13 sometimes waits for ever while it takes gloo's threads down.
    os._exit(0)


if __name__ == "__main__":
    faulthandler.enable()
    main(Path(sys.argv[1]))
