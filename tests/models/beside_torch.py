"""A ready model beside one of torch's layers with the same weights: outputs and gradients in float64."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.models.twins import renamed, take_weights
from burnlike.config import ModuleConfig
from burnlike.interop import record_to_torch

TOLERANCE = 1e-10


def randomized(config: ModuleConfig) -> Any:
    """The model in float64, none of its weights and statistics constant."""
    torch.manual_seed(0)
    module = config.init()
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            tensor.add_(0.1 * torch.rand_like(tensor))
    return module.double()


def floats(*shape: int) -> Tensor:
    """Normal numbers in float64, always the same."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def gradients_of(module: nn.Module) -> nn.Module:
    """A copy of a module whose parameters are the gradients of its own."""
    found = copy.deepcopy(module)
    with torch.no_grad():
        for its, one in zip(module.parameters(), found.parameters(), strict=True):
            assert its.grad is not None
            one.copy_(its.grad)
    return found


def expect_same(
    ours: nn.Module,
    theirs: nn.Module,
    names: Mapping[str, str],
    x: Tensor,
    output: Callable[[Any], Tensor] = lambda found: found,
) -> None:
    """Expect the outputs and the gradients of the input and of all parameters to be the same.

    Args:
        ours: a ready model.
        theirs: torch's; it gets the weights of ours.
        names: patterns in the paths of ours, with torch's names of layers' tensors, to what theirs has in place of it.
        x: the input.
        output: what of theirs is compared.
    """
    theirs.double().train(ours.training)
    take_weights(ours, theirs, names)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    results = [ours(inputs[0]), output(theirs(inputs[1]))]
    torch.testing.assert_close(results[0], results[1], rtol=TOLERANCE, atol=TOLERANCE)
    for result in results:
        (result * torch.arange(1, result.numel() + 1).sin().reshape(result.shape)).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=TOLERANCE, atol=TOLERANCE)
    found = {renamed(name, names): it for name, it in record_to_torch(gradients_of(ours)).tensors.items()}
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=TOLERANCE, atol=TOLERANCE, msg=name)
