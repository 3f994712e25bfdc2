"""Losses of language models without logits, which are computed when something reads them."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.nn.utils import parametrize

from burnlike.errors import AutodiffError
from burnlike.interop import fuse, unfuse
from burnlike.interop.fused import heads
from burnlike.interop.fused.lazy_logits import LazyLogits, lazy_logits
from burnlike.ops import native_status

SIZES: Any = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 50,
}
IDS: Any = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


@pytest.fixture(autouse=True)
def _heads_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "_FEWEST_LOGITS", 1)


def llama(**options: Any) -> Any:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, **IDS, **options))


def gemma2() -> Any:
    """Logits of tied weights with a soft cap."""
    return transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**SIZES, **IDS, head_dim=8, num_key_value_heads=2, final_logit_softcapping=2.0)
    )


def cohere() -> Any:
    return transformers.CohereForCausalLM(transformers.CohereConfig(**SIZES, **IDS, logit_scale=0.3))


def bert() -> Any:
    """A head with a bias, and a loss in the model's own code."""
    config = transformers.BertConfig(**SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return transformers.BertForMaskedLM(config)


def batch() -> dict[str, Tensor]:
    ids = torch.randint(3, 50, (2, 7), generator=torch.Generator().manual_seed(0))
    labels = ids.clone()
    labels[0, :4] = -100
    return {"input_ids": ids, "labels": labels}


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: it.grad.clone() for name, it in model.named_parameters() if it.grad is not None}


def is_read(logits: Any) -> bool:
    return not isinstance(logits, LazyLogits) or logits.recipe.values is not None


@pytest.mark.parametrize("make", [llama, gemma2, cohere, bert])
def test_the_loss_is_the_stock_models_without_its_logits(make: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    model, given = make(), batch()
    given["num_items_in_batch"] = torch.tensor(20)
    if make is bert:
        del given["num_items_in_batch"]
    stock = model(**given)
    expected = gradients(model, stock.loss)
    report = fuse(model, lazy_logits=True)
    assert report.fused[0].ops[-1] == "linear_cross_entropy"
    calls = native_status().calls.get("cross_entropy_backward", 0)
    output = model(**given)
    actual = gradients(model, output.loss)
    assert native_status().calls["cross_entropy_backward"] == calls + 1
    assert not is_read(output.logits)
    torch.testing.assert_close(output.loss, stock.loss)
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], gradient, rtol=1e-3, atol=1e-6, msg=name)
    torch.testing.assert_close(output.logits + 0, stock.logits, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        validation = model.eval()(**given)
    torch.testing.assert_close(validation.loss, stock.loss)
    assert not is_read(validation.logits)
    assert type(model(given["input_ids"]).logits) is Tensor
    unfuse(model)
    assert type(model(**given).logits) is Tensor


def test_within_autocast_the_loss_is_as_near_as_the_stock_models() -> None:
    model, given = llama(), batch()
    exact = model(**given).loss

    def run() -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return model(**given)

    stock = run()
    fuse(model, lazy_logits=True)
    output = run()
    assert not is_read(output.logits)
    assert output.loss.dtype == stock.loss.dtype
    assert output.logits.dtype == stock.logits.dtype == torch.bfloat16
    assert (output.loss - exact).abs() <= (stock.loss - exact).abs() + 2e-3
    torch.testing.assert_close(output.logits.float(), stock.logits.float(), rtol=2e-2, atol=2e-2)


def head() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden, weight, bias = (torch.randn(*sizes, generator=generator) for sizes in ((2, 3, 4), (5, 4), (5,)))
    return hidden.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()


def in_place(logits: Tensor) -> Tensor:
    view = logits.view(-1, 5)
    kept = logits.float() * 2
    logits[0].mul_(3)
    return torch.cat((view, kept.view(-1, 5)))


READERS: list[Callable[[Any], Any]] = [
    lambda it: it.softmax(-1),
    lambda it: torch.stack([it, it]),
    lambda it: it.detach().cpu().numpy(),
    lambda it: it.tolist(),
    lambda it: repr(it * 1.5),
    lambda it: it[:, -1].topk(2).values,
    lambda it: it[..., :-1, :].contiguous().view(-1, 5)[0],
    lambda it: it[..., 1:],
    lambda it: it.transpose(1, 2),
    lambda it: (it.shape, it.dtype, it.device, it.requires_grad, it.dim(), len(it), it.is_contiguous()),
    lambda it: 30 * torch.tanh(it / 30),
    lambda it: it.to(torch.bfloat16).float(),
    lambda it: pickle.loads(pickle.dumps(it.detach())),
    lambda it: F.cross_entropy(it.view(-1, 5), torch.tensor([0, 4, 1, 2, 3, 0])),
    in_place,
]


@pytest.mark.parametrize("place", range(len(READERS)))
def test_whoever_reads_lazy_logits_gets_the_numbers_and_gradients_of_the_layer(place: int) -> None:
    read, found = READERS[place], []
    for make in (F.linear, lazy_logits):
        parts = head()
        logits = make(*parts)
        result = read(logits)
        if isinstance(result, Tensor) and result.requires_grad:
            (result * torch.ones_like(result).cumsum(-1)).sum().backward()
            result = [result.detach(), *(it.grad for it in parts)]
        found.append(result)
    expected, actual = found
    if isinstance(actual, list):
        torch.testing.assert_close(actual, expected)
    else:
        assert str(actual) == str(expected)


def test_autograd_knows_the_place_of_logits_that_nobody_has_read() -> None:
    hidden, weight, bias = head()
    logits = lazy_logits(hidden, weight, bias)
    (grad,) = torch.autograd.grad(logits, weight, torch.ones(2, 3, 5))
    torch.testing.assert_close(grad, hidden.detach().sum((0, 1)).expand(5, 4))


def write_in_place(weight: Tensor) -> None:
    with torch.no_grad():
        weight.add_(0.1)


def write_data(weight: Tensor) -> None:
    weight.data[:] = weight.data * 0.5


@pytest.mark.parametrize("write", [write_in_place, write_data])
def test_logits_are_not_computed_with_weights_that_were_changed(write: Callable[[Tensor], None]) -> None:
    model, given = llama(tie_word_embeddings=True), batch()
    expected = model(**given).logits
    fuse(model, lazy_logits=True)
    early, late = model(**given), model(**given)
    torch.testing.assert_close(early.logits + 0, expected)
    write(model.lm_head.weight)
    torch.testing.assert_close(early.logits + 0, expected)
    with pytest.raises(AutodiffError, match="read them before the optimizer's step"):
        late.logits.argmax(-1)
    model.lm_head.weight = nn.Parameter(torch.zeros(50, 16))  # what the logits were made of is still there
    with pytest.raises(AutodiffError):
        late.logits.argmax(-1)


def test_fused_heads_are_copied_pickled_and_fused_once() -> None:
    model, given = llama(), batch()
    fuse(model)
    first = fuse(model, lazy_logits=True)
    assert fuse(model, lazy_logits=True) == first == fuse(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        output = other(**given)
        assert not is_read(output.logits)
        torch.testing.assert_close(output.loss, model(**given).loss)
    loss = model(**given).loss
    assert unfuse(model) == len(first.fused)
    torch.testing.assert_close(model(**given).loss, loss)


def test_a_compiled_model_has_logits() -> None:
    model, given = llama(), batch()
    stock = model(**given)
    fuse(model, lazy_logits=True)
    torch.compiler.reset()
    output = torch.compile(model, fullgraph=True, backend="eager")(**given)
    assert type(output.logits) is Tensor
    torch.testing.assert_close(output.loss, stock.loss)


def test_a_head_of_another_class_keeps_its_logits() -> None:
    class Scaled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 2

    model = llama()
    model.lm_head = Scaled(16, 50)
    stock = model(**batch()).loss
    fuse(model, lazy_logits=True)
    torch.testing.assert_close(model(**batch()).loss, stock)
    assert type(model(**batch()).logits) is Tensor


@pytest.mark.parametrize("fused_first", [True, False])
def test_a_head_that_draws_its_weight_draws_once_for_its_logits(fused_first: bool) -> None:
    models, given, found = [llama(), llama()], batch(), []
    if fused_first:
        fuse(models[1], lazy_logits=True)
    for model in models:
        parametrize.register_parametrization(model.lm_head, "weight", nn.Dropout())
    if not fused_first:
        fuse(models[1], lazy_logits=True)
    for model in models:
        torch.manual_seed(1)
        output = model(**given)
        found.append([output.loss, *gradients(model, output.loss).values(), output.logits + 0, torch.rand(1)])
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-5)
