"""What modules hold under `fully_shard`. `tests/fsdp` has the rest, in a group of two."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike._torch_compat import fsdp
from burnlike.errors import ModuleTreeError


@pytest.fixture
def gathered(group: None) -> nn.Linear:
    """A layer whose parameters `fully_shard` divides, gathered by a forward pass."""
    # Not above: with these imports burnlike looks for divided tensors, which `tests/test_ways.py` would count.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    layer = nn.Linear(3, 2)
    fully_shard(layer, mesh=init_device_mesh("cpu", (1,)))
    layer(torch.ones(1, 3))
    return layer


def test_MANAGED(gathered: nn.Linear) -> None:
    assert fsdp.MANAGED in gathered.__dict__
    assert fsdp.MANAGED not in nn.Linear(2, 2).__dict__


def is_divided(tensor: Tensor) -> bool:
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def test_sharded(gathered: nn.Linear) -> None:
    assert not is_divided(gathered.weight)
    assert is_divided(fsdp.sharded(gathered, "weight", gathered.weight))
    other = torch.ones(2)
    assert fsdp.sharded(gathered, "weight", other) is other


def test_sharded_forms(gathered: nn.Linear) -> None:
    forms = fsdp.sharded_forms()
    assert forms[id(gathered.bias)] is fsdp.sharded(gathered, "bias", gathered.bias)
    fsdp.reshard(forms.values())
    assert fsdp.sharded_forms() == {}


def test_sharded_form(gathered: nn.Linear) -> None:
    assert is_divided(fsdp.sharded_form(gathered.weight))


def test_copies_and_sharded(gathered: nn.Linear) -> None:
    pairs = [*fsdp.copies_and_sharded()]
    assert {id(copy) for copy, _ in pairs} >= {id(gathered.weight), id(gathered.bias)}
    assert all(is_divided(param) for _, param in pairs)


def test_is_managed(gathered: nn.Linear) -> None:
    assert fsdp.is_managed(gathered)
    assert not fsdp.is_managed(nn.Linear(2, 2))


def test_distributed_type(gathered: nn.Linear) -> None:
    assert is_divided(fsdp.sharded_form(gathered.weight))
    assert fsdp.distributed_type() is type(fsdp.sharded_form(gathered.weight))
    program = "from burnlike._torch_compat import fsdp; assert fsdp.distributed_type() is None"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_is_distributed(gathered: nn.Linear) -> None:
    assert fsdp.is_distributed(fsdp.sharded_form(gathered.weight))
    assert not fsdp.is_distributed(gathered.weight)


def test_reshard(gathered: nn.Linear) -> None:
    weight = fsdp.sharded_form(gathered.weight)
    fsdp.reshard([torch.ones(2)])
    assert not is_divided(gathered.weight)
    fsdp.reshard([weight])
    assert gathered.weight is weight
    loss = gathered(torch.ones(1, 3)).sum()
    gathered.weight.register_hook(lambda _: fsdp.reshard([weight]))
    with pytest.raises(ModuleTreeError, match="during its forward or backward pass"):
        loss.backward()


def test_take_over(gathered: nn.Linear) -> None:
    weight: Any = fsdp.sharded_form(gathered.weight)
    fsdp.reshard([weight])
    gathered.weight = nn.Parameter(weight.detach() * 0)
    fsdp.take_over(gathered, "weight")
    bias = fsdp.sharded_form(gathered.bias)
    assert gathered(torch.ones(1, 3)).equal(bias.to_local().expand(1, 2))  # pyright: ignore
