"""A mixture of experts beside transformers' Mixtral, and the balance of its choices."""

from typing import Any

import pytest
import torch
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, load_balancing_loss_func

from burnlike import nn
from burnlike.errors import ConfigError
from tests.models.exact import in_float64

CONFIG = nn.MixtureOfExpertsConfig(d_model=8, d_ff=12, n_experts=4, n_selected=2)


def mixtral(ours: Any) -> Any:
    """transformers' block with the weights of ours."""
    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_local_experts": 4, "num_experts_per_tok": 2}
    block = MixtralSparseMoeBlock(MixtralConfig(**sizes)).double()
    gates = [(it.gate.linear_inner.weight.mT, it.gate.linear_outer.weight.mT) for it in ours.experts]
    with torch.no_grad():
        block.gate.weight.copy_(ours.router.weight.mT)
        block.experts.gate_up_proj.copy_(torch.stack([torch.cat(gate) for gate in gates]))
        block.experts.down_proj.copy_(torch.stack([it.linear.weight.mT for it in ours.experts]))
    return block


def test_it_is_mixtrals_block() -> None:
    torch.manual_seed(0)
    ours = CONFIG.init().double()
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    with in_float64():
        theirs = mixtral(ours)
        expected = theirs(x)
        logits, _, _ = theirs.gate(x)
        balance = load_balancing_loss_func((logits,), 4, 2)
    found = ours.forward_balance(x)
    torch.testing.assert_close(found.output, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.balance, balance, rtol=1e-6, atol=1e-6)  # theirs is summed in float32
    assert torch.equal(ours(x), found.output)


def test_all_experts_computed_give_the_same_numbers() -> None:
    torch.manual_seed(0)
    ours = CONFIG.init().double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    compiled = torch.compile(ours, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), ours(x), rtol=1e-12, atol=1e-12)
    rows = torch.func.vmap(ours)(x)
    torch.testing.assert_close(rows, ours(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_selected", [1, 2, 3])
def test_gradients_are_those_of_all_experts_computed(n_selected: int) -> None:
    torch.manual_seed(0)
    ours = CONFIG.replace(n_selected=n_selected).init().double()
    with torch.no_grad():
        ours.router.weight[:, 3] -= 100 * ours.router.weight.abs().sum()  # nobody's choice
    x = torch.rand(3, 5, 8, dtype=torch.float64, requires_grad=True)
    leaves = [x, *ours.parameters()]
    compiled = torch.compile(ours, fullgraph=True, backend="eager")
    found, expected = (torch.autograd.grad(it(x).square().sum(), leaves) for it in (ours, compiled))
    for gradient, other in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-10, atol=1e-12)
    assert all(not param.any() for param in found[-3:])


def test_no_positions_give_none() -> None:
    ours = CONFIG.init()
    assert ours(torch.zeros(0, 8)).shape == (0, 8)
    ours(torch.zeros(2, 0, 8)).sum().backward()


def test_the_balance_is_the_formula_of_switch() -> None:
    """Fedus et al. 2021, eq. 4 to 6, for one expert a position."""
    torch.manual_seed(0)
    ours = CONFIG.replace(n_selected=1, normalized=False).init().double()
    x = torch.randn(10, 8, dtype=torch.float64)
    probabilities = (x @ ours.router.weight).softmax(-1)
    fractions = torch.tensor([(probabilities.argmax(-1) == index).double().mean() for index in range(4)])
    expected = 4 * (fractions * probabilities.mean(0)).sum()
    torch.testing.assert_close(ours.forward_balance(x).balance, expected.detach().requires_grad_(), check_stride=False)


def test_more_experts_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"n_selected: expected at most n_experts \(4\), got 5"):
        CONFIG.replace(n_selected=5)
