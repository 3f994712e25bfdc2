"""Attention that transformers computes in steps with a soft cap (Gemma 2), by the op, with weights that are lazy."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import AutodiffError
from burnlike.interop import fuse
from burnlike.interop.fused.eager_attention import LazyWeights, with_soft_cap
from burnlike.ops import native_status

pytest.importorskip("transformers")
from transformers import Gemma2Config, Gemma2ForCausalLM
from transformers.models.gemma2 import modeling_gemma2

pytestmark = pytest.mark.skipif(
    native_status().isa != "avx512_bf16", reason="the op has a soft cap on CPUs that multiply bfloat16"
)
CONFIG: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "attn_logit_softcapping": 2.0,
    "pad_token_id": 0,
    "use_cache": False,
}


@pytest.fixture(scope="module")
def models() -> tuple[nn.Module, nn.Module]:
    """The stock model and the fused one, in bfloat16, with weights that make large scores."""
    torch.manual_seed(0)
    stock: Any = Gemma2ForCausalLM(Gemma2Config(**CONFIG)).bfloat16()
    with torch.no_grad():
        for it in stock.parameters():
            it.mul_(8.0)
    fused = copy.deepcopy(stock)
    fuse(fused)
    return stock, fused


def inputs(model: Any) -> dict[str, Any]:
    """Of one layer's attention."""
    torch.manual_seed(1)
    hidden = torch.randn(2, 7, 32).bfloat16().requires_grad_()
    return {
        "hidden_states": hidden,
        "position_embeddings": model.model.rotary_emb(hidden, torch.arange(7)[None]),
        "attention_mask": torch.zeros(2, 1, 7, 7).bfloat16().masked_fill(torch.ones(7, 7).triu(1).bool(), -1e30),
    }


def assert_near(ours: Tensor, theirs: Tensor) -> None:
    """Equal but for the rounding of queries and keys that are turned by the op."""
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert (ours.float() - theirs.float()).nan_to_num().norm() <= 0.02 * theirs.float().nan_to_num().norm()


@pytest.mark.parametrize("padding", [0, 3], ids=["whole", "padded"])
def test_a_step_has_the_gradients_of_the_stock_model(models: tuple[Any, Any], padding: int) -> None:
    exact = copy.deepcopy(models[0]).float()
    ids = torch.randint(1, 50, (2, 40), generator=torch.Generator().manual_seed(2))
    mask = (torch.arange(40) >= padding).long().expand(2, -1)
    before = native_status().calls["attention_backward"]
    found: list[Tensor] = []
    for model in (*models, exact):
        loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss
        found.append(torch.cat([it.flatten().double() for it in torch.autograd.grad(loss, [*model.parameters()])]))
    assert native_status().calls["attention_backward"] == before + (0 if padding else 2)  # padding sees nothing
    stock, fused, true = found
    assert (fused - true).norm() <= 1.2 * (stock - true).norm()


def test_weights_are_those_of_the_stock_code_when_they_are_read(models: tuple[Any, Any]) -> None:
    stock, fused = (model.model.layers[0].self_attn(**inputs(model)) for model in models)
    assert isinstance(fused[1], LazyWeights)
    assert fused[1].requires_grad
    for ours, theirs in zip(fused, stock, strict=True):
        assert_near(ours, theirs)
    given = [inputs(models[0]) for _ in models]
    for model, arguments in zip(models, given, strict=True):
        model.model.layers[0].self_attn(**arguments)[1].float().square().sum().backward()
    stock_grad, fused_grad = (it["hidden_states"].grad for it in given)
    assert_near(fused_grad, stock_grad)


def test_weights_whose_mask_was_written_to_are_refused(models: tuple[Any, Any]) -> None:
    given = inputs(models[1])
    weights = models[1].model.layers[0].self_attn(**given)[1]
    given["attention_mask"].zero_()
    with pytest.raises(AutodiffError, match="written to since"):
        weights.sum()


def test_models_that_are_asked_for_weights_return_the_stock_ones(models: tuple[Any, Any]) -> None:
    ids = torch.arange(1, 9).expand(2, -1)
    stock, fused = (copy.deepcopy(model)(input_ids=ids, output_attentions=True).attentions for model in models)
    assert [type(it) for it in fused] == [Tensor, Tensor]
    assert_near(fused[0], stock[0])


@pytest.mark.parametrize("change", ["hidden row", "float32", "no cap", "evaluation"])
def test_all_else_is_the_stock_code(models: tuple[Any, Any], change: str) -> None:
    results: list[Any] = []
    before = native_status().calls["attention"]
    for model in models:
        attention = copy.deepcopy(model.model.layers[0].self_attn)
        given = inputs(model)
        if change == "hidden row":
            given["attention_mask"][:, :, 2] = -torch.inf
        elif change == "float32":
            attention.float()
            given = {
                name: tuple(part.float() for part in it) if isinstance(it, tuple) else it.float()
                for name, it in given.items()
            }
        elif change == "no cap":
            attention.attn_logit_softcapping = None
        with torch.set_grad_enabled(change != "evaluation"):
            results.append(attention(**given))
    for stock, fused in zip(*results, strict=True):
        assert_near(fused, stock)
    assert native_status().calls["attention"] == before


def test_steps_that_compute_anything_else_are_left() -> None:
    def eager_attention_forward(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        softcap: float | None = None,
        **kwargs: Any,
    ) -> Any:
        softcap = None if softcap is None else 1.01 * softcap
        return modeling_gemma2.eager_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, softcap, **kwargs
        )

    assert with_soft_cap(modeling_gemma2.eager_attention_forward) is not None
    assert with_soft_cap(eager_attention_forward) is None
