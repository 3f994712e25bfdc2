"""Experts of transformers' mixtures with sorted rows, one product an expert."""

import copy
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from burnlike.interop import fuse
from burnlike.interop.fused import experts

SIZES: Any = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 24,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MODELS: dict[str, Any] = {
    "Mixtral": {"num_local_experts": 4},
    "Qwen3Moe": {"moe_intermediate_size": 8, "num_experts": 6, "num_experts_per_tok": 3, "decoder_sparse_step": 1},
    "GptOss": {"num_local_experts": 4},  # biases, transposed weights, a gate with limits
}


def model_of(name: str) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **MODELS[name]})
    return getattr(transformers, f"{name}ForCausalLM")(config)


def results(model: Any) -> tuple[Tensor, dict[str, Tensor]]:
    ids = torch.randint(3, 40, (2, 9), generator=torch.Generator().manual_seed(0))
    loss = model(input_ids=ids, labels=ids).loss
    model.zero_grad()
    loss.backward()
    return loss.detach(), {name: it.grad.clone() for name, it in model.named_parameters() if it.grad is not None}


def experts_of(model: nn.Module) -> Any:
    return next(it for it in model.modules() if type(it).__name__.endswith("Experts"))


@pytest.mark.parametrize("name", MODELS)
def test_experts_give_the_same_values_and_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(name)
    stock_loss, stock = results(model)
    assert ("experts",) in [it.ops for it in fuse(model).fused]
    calls = []
    own = experts.computed
    monkeypatch.setattr(experts, "computed", lambda *arguments: calls.append(1) or own(*arguments))
    loss, gradients = results(model)
    assert calls == [1]
    torch.testing.assert_close(loss, stock_loss)
    for key, gradient in stock.items():
        torch.testing.assert_close(gradients[key], gradient, rtol=1e-3, atol=1e-6, msg=key)
    model.set_experts_implementation("eager")  # another function than was proved
    torch.testing.assert_close(results(model)[0], stock_loss)
    assert calls == [1]
    model.set_experts_implementation("grouped_mm")
    experts_of(model)._apply_gate = lambda x: x.chunk(2, -1)[0] * 0
    without_gate, fused = copy.deepcopy(experts_of(model)), experts_of(model)
    given = torch.randn(4, 16), torch.tensor([[0, 1]] * 4), torch.ones(4, 2)
    torch.testing.assert_close(fused(*given), type(fused).forward(without_gate, *given))


def test_experts_that_no_row_chose_have_gradients_of_zero_and_all_are_differentiable_twice() -> None:
    x, weight = torch.randn(5, 3, dtype=torch.float64), torch.randn(3, 3, 2, dtype=torch.float64)
    x.requires_grad_()
    weight.requires_grad_()
    order = experts._Order(torch.tensor([3, 0, 4, 1, 2]), 1)

    def function(x: Tensor, weight: Tensor) -> Any:
        sorted_rows: Any = experts._Chosen.apply(x, order)
        return experts._Summed.apply(experts._Grouped.apply(sorted_rows, weight, [3, 0, 2]), order)

    expected = torch.stack([row @ weight[which] for row, which in zip(x, (0, 2, 2, 0, 0), strict=True)])
    torch.testing.assert_close(function(x, weight), expected)
    (grad,) = torch.autograd.grad(function(x, weight).sum(), weight)
    assert grad[1].abs().max() == 0
    assert torch.autograd.gradgradcheck(function, (x, weight))
    assert torch.autograd.gradcheck(function, (x, weight.detach().mT.contiguous().mT.requires_grad_()))
