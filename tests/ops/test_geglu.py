import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from burnlike.errors import ArgumentError
from burnlike.ops import geglu
from burnlike.ops._arguments import Approximate

FORMS: tuple[Approximate, ...] = ("none", "tanh")


def torch_geglu(gate: Tensor, up: Tensor, approximate: str) -> Tensor:
    return F.gelu(gate, approximate=approximate) * up


def test_known_values() -> None:
    # Phi(1) = 0.841344746, Phi(-2) = 0.022750132, Phi(-10) = 7.619853e-24, which 1 + erf(x / sqrt(2)) rounds to zero.
    y = geglu(torch.tensor([1.0, -2.0, -10.0]), torch.tensor([3.0, 1.0, 1.0]))
    torch.testing.assert_close(y, torch.tensor([2.524034238, -0.045500264, -7.619853e-23]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("approximate", FORMS)
def test_special_values_are_those_of_torch(approximate: Approximate) -> None:
    # In float64, as torch's gelu of an infinite float32 is NaN on some CPUs.
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 90.0, -90.0, 1e18, -1e18, 1e-40])
    gate, up = (it.flatten() for it in torch.meshgrid(special, special, indexing="ij"))
    given = [gate.clone().requires_grad_(), up.clone().requires_grad_()]
    exact_given = [gate.double().requires_grad_(), up.double().requires_grad_()]
    actual, expected = geglu(given[0], given[1], approximate), torch_geglu(exact_given[0], exact_given[1], approximate)
    grads = torch.autograd.grad(actual.sum(), given), torch.autograd.grad(expected.sum(), exact_given)
    for one, other in zip((actual, *grads[0]), (expected, *grads[1]), strict=True):
        torch.testing.assert_close(one, other.float(), equal_nan=True, atol=1e-30, rtol=1e-6)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="geglu: expected approximate 'none' or 'tanh', got 'erf'"):
        geglu(torch.randn(3, 8), None, "erf")  # type: ignore[arg-type]
