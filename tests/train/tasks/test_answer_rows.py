"""Log-probabilities of answers whose prompt is read once: those of the model on each answer behind its own prompt."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.interop import fuse
from burnlike.models import DecoderLmConfig
from burnlike.train.learner.computing import checkpointed
from burnlike.train.tasks import answer_rows
from burnlike.train.tasks.answer_rows import AnswerReader, AnswerRows

from .test_grpo import exact
from .test_preferences import adapted, llama

VOCAB, COPIES = 30, 3
PROMPTS = {"equal": [6, 6], "unequal": [7, 2, 4], "short": [1, 3]}
ANSWERS = {"equal": [5] * 6, "unequal": [3, 1, 6, 2, 5, 4, 1, 1, 2], "short": [4, 2, 1, 3, 3, 5]}


def rows(lengths: str) -> AnswerRows:
    drawn = torch.Generator().manual_seed(4)
    prompts, answers = (
        [torch.randint(2, VOCAB, (it,), generator=drawn) for it in sizes[lengths]] for sizes in (PROMPTS, ANSWERS)
    )
    return AnswerRows.of(prompts, answers)


def decoder(**options: Any) -> nn.Module:
    torch.manual_seed(2)
    sizes: dict[str, Any] = {"vocab_size": VOCAB, "d_model": 16, "n_heads": 4, "n_layers": 2, "d_ff": 24}
    values = {"max_sequence_length": 16, **sizes, **options}
    return DecoderLmConfig.from_dict(values).init().double()


def of_transformers(name: str, **options: Any) -> Any:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    torch.manual_seed(2)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = getattr(transformers, f"{name}Config")(vocab_size=VOCAB, **{**sizes, **options})
    return getattr(transformers, f"{name}{'LMHeadModel' if name == 'GPT2' else 'ForCausalLM'}")(config).double()


def fused(model: Any) -> Any:
    fuse(model)
    return model


SMALL = {"num_key_value_heads": 2, "head_dim": 8}
SHARING: dict[str, tuple[Callable[[], Any], float]] = {
    "DecoderLm": (lambda: decoder(), 1e-12),
    "learned": (lambda: decoder(positions={"type": "Learned"}, norm="LayerNorm"), 1e-12),
    "window": (lambda: decoder(sliding_window=3, n_heads_kv=2), 1e-12),
    "soft cap": (lambda: decoder(attention_soft_cap=2.0, tied=True), 1e-12),
    "Llama": (lambda: exact(llama()), 1e-12),
    "adapters": (lambda: exact(adapted()), 1e-12),
    # Their norms compute in float32: that of a prompt rounds the sum of the gradients of its answers.
    "Llama, fused": (lambda: fused(llama()), 1e-5),
    "Llama, eager": (lambda: of_transformers("Llama", attn_implementation="eager"), 1e-5),
    "Qwen3": (lambda: of_transformers("Qwen3", **SMALL), 1e-5),
    "Mistral": (lambda: of_transformers("Mistral", sliding_window=3, num_key_value_heads=2), 1e-5),
    "GPT2": (lambda: of_transformers("GPT2", n_embd=16, n_layer=2, n_head=4).eval(), 1e-12),
}


def expected(model: nn.Module, rows: AnswerRows, temperature: float) -> Tensor:
    """By a forward pass of each answer with its prompt alone."""
    result = torch.zeros(rows.answers.shape, dtype=torch.float64)
    for row, (answer, length) in enumerate(zip(rows.answers, rows.answer_lengths.tolist(), strict=True)):
        size = int(rows.prompt_lengths[row // COPIES])
        tokens = torch.cat((rows.prompts[row // COPIES, :size], answer[:length]))
        output: Any = model(tokens[None])
        scores = (output if isinstance(output, Tensor) else output.logits)[0, size - 1 : -1] / temperature
        result[row, :length] = scores.log_softmax(-1).gather(-1, answer[:length, None])[:, 0]
    return result.where(rows.counts, 0.0)


@pytest.mark.parametrize("lengths", PROMPTS)
@pytest.mark.parametrize("name", SHARING)
def test_values_and_gradients_are_those_of_answers_alone(name: str, lengths: str) -> None:
    make, tolerance = SHARING[name]
    ours, plain, some = make(), make(), rows(lengths)
    some.counts[1] = False  # an answer that was cut off
    reader = AnswerReader()
    logs, other = reader.log_probabilities(ours, some, 0.7)[0], expected(plain, some, 0.7)
    assert reader._shares(ours, some)
    torch.testing.assert_close(logs, other, rtol=1e-12 if tolerance < 1e-6 else 1e-6, atol=1e-12)
    weights = torch.randn(logs.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for one in (logs, other):
        (one * weights).sum().backward()
    trained = [(one.grad, it.grad) for one, it in zip(ours.parameters(), plain.parameters(), strict=True)]
    assert any(one is not None for one, _ in trained)
    for one, grad in trained:
        if one is not None:
            torch.testing.assert_close(one, grad, rtol=tolerance, atol=tolerance)


def test_the_prompts_tokens_are_computed_once() -> None:
    model, some, shapes = llama(), rows("equal"), []
    model.model.layers[0].mlp.register_forward_hook(lambda _, inputs, __: shapes.append(inputs[0].shape[:2]))
    reader = AnswerReader()
    reader.log_probabilities(model, some)
    shapes.clear()
    reader.log_probabilities(model, some)
    assert shapes == [(1, 2 * (6 - 1) + 6 * 5)]
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_16_and_32_bits_are_near_float64(dtype: torch.dtype) -> None:
    model, some, reader = llama(), rows("unequal"), AnswerReader()
    exact_logs, _ = reader.log_probabilities(model, some)
    logs, _ = reader.log_probabilities(model.to(dtype), some)
    assert reader._shares(model, some)
    torch.testing.assert_close(logs.double(), exact_logs, rtol=0, atol=1e-5 if dtype == torch.float32 else 5e-2)


_CONTEXTS: list[Any] = []


def checkpointed_decoder() -> Any:
    model = decoder()
    _CONTEXTS.append(checkpointed(model))  # which would end with the last reference to it
    _CONTEXTS[-1].__enter__()
    return model


class Backward(nn.Module):
    """Attention that sees what is behind it, in the place of a block's own."""

    def forward(self, hidden_states: Tensor, **_: Any) -> tuple[Tensor, None]:
        return hidden_states.cumsum(1), None


def with_own_attention() -> Any:
    model = llama()
    model.model.layers[1].self_attn = Backward()
    return model


def with_checkpoints() -> Any:
    model = llama()
    model.activation_checkpointing_enable()
    return model.train()


REPEATED: dict[str, Callable[[], Any]] = {
    "experts": lambda: decoder(feed_forward={"type": "Experts", "n_experts": 3, "n_selected": 2}),
    "checkpoints": checkpointed_decoder,
    "Llama, checkpoints": with_checkpoints,
    "Llama, own attention": with_own_attention,
    "Llama, by length": lambda: of_transformers("Llama", rope_scaling={"rope_type": "dynamic", "factor": 2.0}),
    "Bloom": lambda: of_transformers("Bloom", n_head=4, n_layer=2),
}


@pytest.mark.parametrize("name", REPEATED)
def test_other_models_read_prompts_with_each_answer(name: str) -> None:
    model, some, reader = REPEATED[name](), rows("unequal"), AnswerReader()
    assert not reader._shares(model, some)
    torch.testing.assert_close(
        reader.log_probabilities(model, some)[0], expected(model, some, 1.0), rtol=1e-5, atol=1e-6
    )


def test_the_proof_finds_another_position() -> None:
    model, some = decoder(positions={"type": "Learned"}), rows("equal")
    assert answer_rows._gives_the_same(model, some)

    def moved(_: nn.Module, tokens: Any, more: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        positions = more.get("positions")
        return tokens, more if positions is None else {**more, "positions": positions + 1}

    model.register_forward_pre_hook(moved, with_kwargs=True)
    assert not answer_rows._gives_the_same(model, some)
