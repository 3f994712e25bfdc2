"""Each case of the table with `burnlike.func` and `burnlike.mlax`: gradients, partitions, ensembles."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import func, mlax
from burnlike.module import params

from .cases import CASES, Case, first_of_each, tensors_of
from .test_layers import each_layer, expect_equal, run, skip_where_not, weighted

pytestmark = [
    # torch's fused attention and our kernels are computed member by member.
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    # torch's vmap of prelu over the slopes alone makes its output in the wrong size first.
    pytest.mark.filterwarnings("ignore:An output with one or more elements was resized"),
]
MEMBERS = 2


def gradients_of(layer: nn.Module, case: Case) -> tuple[Tensor, dict[str, Tensor | None]]:
    """The number that torch's backward pass starts from, and the parameters' gradients."""
    torch.manual_seed(2)
    loss = weighted(run(layer, case))
    if loss.requires_grad:
        loss.backward()
    return loss.detach(), {param.path: param.tensor.grad for param in params(layer)}


def trains(case: Case) -> bool:
    return any(it.requires_grad for it in case.layer().parameters())


with_parameters = pytest.mark.parametrize("case", [first_of_each(it) for it in CASES if trains(it)])


@with_parameters
def test_gradients_by_func_are_those_of_the_backward_pass(case: Case) -> None:
    skip_where_not(case, "func")
    loss, expected = gradients_of(case.layer(), case)
    trained, rest = mlax.partition(case.layer())

    def total(trained: Any, rest: Any) -> Tensor:
        return weighted(run(mlax.combine(trained, rest), case))

    torch.manual_seed(2)
    value, grads = func.value_and_grad(total)(trained, rest)
    torch.testing.assert_close(value, loss)
    torch.manual_seed(2)
    again = func.grad(total)(trained, rest)
    for found in (grads, again):
        by_path = {leaf.path: leaf.data for leaf in mlax.leaves(found)}
        for path, grad in expected.items():
            assert (by_path.get(path) is None) == (grad is None), path
            if grad is not None:
                torch.testing.assert_close(by_path[path], grad, rtol=1e-12, atol=1e-12)


@each_layer
def test_its_parts_make_it_again(case: Case) -> None:
    layer = case.layer().eval()
    trained, rest = mlax.partition(layer)
    expect_equal(run(mlax.combine(trained, rest), case), run(layer, case), rtol=0, atol=0)


@with_parameters
def test_an_ensemble_is_its_members_one_by_one(case: Case) -> None:
    skip_where_not(case, "ensemble")
    members = [case.layer().eval() for _ in range(MEMBERS)]
    with torch.no_grad():
        for number, member in enumerate(members):
            for param in member.parameters():
                param.mul_(1 + 0.25 * number)

    inputs, named = case.drawn()

    def one(layer: Any) -> list[Tensor]:
        return tensors_of(layer(*inputs, **named))

    found = func.vmap(one)(func.stack(members))
    for number, member in enumerate(members):
        expect_equal([it[number] for it in found], one(member), rtol=1e-10, atol=1e-10)
