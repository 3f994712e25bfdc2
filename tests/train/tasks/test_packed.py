"""Packed documents, masked labels and padding: what LanguageModel computes is what each document gives alone."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BloomConfig, BloomForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from burnlike.data.chat.conversations import ConversationBatcher
from burnlike.errors import ConfigError, DataError
from burnlike.models import DecoderLmConfig, LstmLmConfig
from burnlike.models.decoder_lm.configs import LearnedPositions, RotaryPositions
from burnlike.optim import SgdConfig
from burnlike.train import Learner
from burnlike.train.tasks.language_model import LanguageModel, next_token_loss

SIZES: Any = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
LENGTHS = (7, 3, 9, 5, 2)


def llama(**options: Any) -> nn.Module:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, vocab_size=40, num_key_value_heads=2, **options)).double()


def mistral() -> nn.Module:
    torch.manual_seed(0)
    return MistralForCausalLM(MistralConfig(**SIZES, vocab_size=40, num_key_value_heads=2, sliding_window=3)).double()


def decoder(**options: Any) -> nn.Module:
    torch.manual_seed(0)
    sizes = {"vocab_size": 40, "max_sequence_length": 64, "d_model": 16, "n_layers": 2, "n_heads": 4, "d_ff": 24}
    return DecoderLmConfig(**{**sizes, **options}).init().double()


MODELS = {
    "llama": llama,
    "llama eager": lambda: llama(attn_implementation="eager"),
    "mistral with a window": mistral,
    "DecoderLm": decoder,
    "DecoderLm with a window": lambda: decoder(sliding_window=3, n_heads_kv=2),
    "DecoderLm with learned positions": lambda: decoder(positions=LearnedPositions()),
    "DecoderLm with a cap": lambda: decoder(attention_soft_cap=5.0, positions=RotaryPositions()),
}


FAST = ("llama", "DecoderLm", "DecoderLm with a window")


def documents() -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    found = []
    for length in LENGTHS:
        tokens = torch.randint(40, (length,), generator=generator)
        labels = tokens.where(torch.arange(length) >= length // 2, -100)
        found.append({"input_ids": tokens, "labels": labels})
    return found


def joined(some: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    positions = torch.cat([torch.arange(len(it["input_ids"])) for it in some])
    return {**{name: torch.cat([it[name] for it in some]) for name in some[0]}, "position_ids": positions}


def packed() -> Any:
    some = documents()
    return ConversationBatcher(0).batch([joined(some[:3]), joined(some[3:])], torch.device("cpu"))


def padded() -> Any:
    return ConversationBatcher(0).batch(documents(), torch.device("cpu"))


def logits_of(model: Any, tokens: Tensor) -> Tensor:
    output = model(tokens)
    return output if isinstance(output, Tensor) else output.logits


def by_hand(model: nn.Module) -> tuple[Tensor, int]:
    """The sum of the losses of each document alone, and how many there are."""
    losses = []
    for it in documents():
        logits = logits_of(model, it["input_ids"][None])[0]
        counted = it["labels"][1:] != -100
        losses.append(functional.cross_entropy(logits[:-1][counted], it["labels"][1:][counted], reduction="sum"))
    return torch.stack(losses).sum(), sum(int((it["labels"][1:] != -100).sum()) for it in documents())


def gradients(model: nn.Module, loss: Tensor) -> Tensor:
    return torch.cat([it.flatten() for it in torch.autograd.grad(loss, [*model.parameters()])])


@pytest.mark.parametrize("name", [it if it in FAST else pytest.param(it, marks=pytest.mark.slow) for it in MODELS])
def test_packed_and_padded_documents_give_what_each_gives_alone(name):
    model = MODELS[name]()
    total, count = by_hand(model)
    rounding = 1e-6 if name == "llama eager" else 1e-12  # of its softmax, which is in float32
    wanted = gradients(model, total / count)
    for batch in (packed(), padded()):
        output = LanguageModel().train_step(model, batch)
        assert output.size == count
        torch.testing.assert_close(output.loss, total / count, rtol=0, atol=rounding)
        torch.testing.assert_close(gradients(model, output.loss), wanted, rtol=0, atol=rounding)
        assert output.predictions.shape == (*output.targets.shape, 40)
        assert int((output.targets != -100).sum()) == count


def test_a_padded_row_of_any_model_is_what_it_gives_alone():
    torch.manual_seed(0)
    model = LstmLmConfig(vocab_size=40, d_model=8, d_hidden=8, n_layers=1).init().double()
    total, count = by_hand(model)
    torch.testing.assert_close(next_token_loss(model, padded()).loss, total / count, rtol=0, atol=1e-12)


class Leaking(nn.Module):
    """Takes positions, and lets documents see each other all the same."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 8, dtype=dtype)

    def forward(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        x = self.embedding(tokens)
        return (x + 1e-2 * x.cumsum(1)) @ self.embedding.weight.T


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: Leaking(torch.float32), "Leaking can't be trained on packed documents: what one document"),
        (lambda: Leaking(torch.bfloat16), "what one document of a row says changes with another"),
        (lambda: BloomForCausalLM(BloomConfig(hidden_size=16, n_head=2, n_layer=1, vocab_size=40)),
         r"BloomForCausalLM .*: it takes no positions; set data\.packing: false"),
        (lambda: LstmLmConfig(vocab_size=40, d_model=8, d_hidden=8, n_layers=1).init(), "it takes no positions"),
    ],
)  # fmt: skip
def test_models_that_do_not_keep_documents_apart_are_refused(model, message):
    made = model()
    with pytest.raises(ConfigError, match=message):
        LanguageModel().train_step(made, packed())
    assert made.training


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_models_in_fewer_bits_are_not_refused(dtype):
    for model in (llama().to(dtype), decoder().to(dtype)):
        assert LanguageModel().train_step(model, packed()).loss.isfinite()


def test_the_balance_of_experts_is_learned_where_the_model_asks_for_it() -> None:
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes: Any = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    experts: Any = {"num_key_value_heads": 1, "num_local_experts": 4, "router_aux_loss_coef": 0.7}
    torch.manual_seed(3)
    model = MixtralForCausalLM(MixtralConfig(vocab_size=32, output_router_logits=True, **sizes, **experts))
    tokens = torch.randint(32, (2, 9))
    mask = torch.ones_like(tokens)
    mask[1, 6:] = 0
    batch = {"input_ids": tokens, "attention_mask": mask, "labels": tokens.masked_fill(mask == 0, -100)}
    own = model(**batch)
    plain = own.loss - 0.7 * own.aux_loss
    torch.testing.assert_close(next_token_loss(model.train(), batch).loss, own.loss)
    torch.testing.assert_close(next_token_loss(model.eval(), batch).loss, plain)

    class Unweighed(nn.Module):
        def forward(self, input_ids: Tensor) -> Any:
            return SimpleNamespace(logits=torch.zeros(*input_ids.shape, 32), aux_loss=torch.ones(()))

    with pytest.raises(
        ConfigError, match=r"the loss of Unweighed has the balance of its experts.* output_router_logits"
    ):
        next_token_loss(Unweighed(), {"input_ids": tokens, "labels": tokens})


def test_several_batches_of_a_step_are_one():
    weights = []
    for parts in ([documents()], [documents()[:1], documents()[1:4], documents()[4:]]):
        model = decoder()
        learner = Learner(model, SgdConfig().init(), 0.1, task=LanguageModel())
        batcher, device = ConversationBatcher(0), torch.device("cpu")
        learner.train_step(*(batcher.batch([joined(part)], device) for part in parts))
        weights.append(torch.cat([it.detach().flatten() for it in model.parameters()]))
    torch.testing.assert_close(*weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"input_ids": torch.zeros(1, 4, dtype=torch.int64)}, "`input_ids` and `labels`.* got a mapping of input_ids"),
        ({"input_ids": torch.zeros(1, 4), "labels": torch.zeros(1, 4)}, r"`input_ids` of \[n, length\] integer tokens"),
        ({"input_ids": torch.zeros(1, 4).long(), "labels": torch.zeros(1, 3).long()}, "of one shape"),
    ],
)
def test_mappings_that_are_no_tokens(batch, message):
    with pytest.raises(DataError, match=message):
        LanguageModel().train_step(decoder(), batch)
