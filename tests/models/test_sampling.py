"""The options of draws, against the logits processors of transformers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike.errors import ArgumentError, ShapeError
from burnlike.models import DecoderLmConfig, Sampler, next_tokens

VOCAB, DRAWS = 24, 200_000
TOKENS = torch.tensor([[3, 7, 3, 9, 3, 7, 11, 2, 3, 7], [5, 5, 5, 1, 0, 5, 5, 2, 5, 5]])


def logits() -> Tensor:
    return 2.5 * torch.randn(2, VOCAB, generator=torch.Generator().manual_seed(4))


def processors(options: dict[str, Any]) -> Any:
    """The processors of transformers for options, in the order of its `generate`."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    biases = {(token,): bias for token, bias in options.get("logit_bias", {}).items()}
    table: list[tuple[str, str, Any]] = [
        ("logit_bias", "SequenceBias", biases),
        ("repetition_penalty", "RepetitionPenalty", options.get("repetition_penalty")),
        ("no_repeat_ngram", "NoRepeatNGram", options.get("no_repeat_ngram")),
    ]
    chosen = [getattr(transformers, f"{name}LogitsProcessor")(value) for key, name, value in table if key in options]
    warpers = {
        "temperature": "Temperature", "top_k": "TopK", "top_p": "TopP", "min_p": "MinP", "typical_p": "Typical",
    }  # fmt: skip
    for key, name in warpers.items():
        if key in options:
            suffix = "LogitsWarper"
            chosen.append(getattr(transformers, name + suffix)(options[key]))
    return transformers.LogitsProcessorList(chosen)


OPTIONS: list[dict[str, Any]] = [
    {"min_p": 0.1},
    {"min_p": 1.0},
    {"typical_p": 0.3},
    {"typical_p": 0.9},
    {"repetition_penalty": 1.7},
    {"repetition_penalty": 0.6},
    {"no_repeat_ngram": 1},
    {"no_repeat_ngram": 2},
    {"no_repeat_ngram": 3},
    {"no_repeat_ngram": 30},
    {"logit_bias": {3: 4.0, 7: -100.0, 0: 0.5}},
    {"temperature": 0.7, "top_k": 12, "top_p": 0.9, "min_p": 0.05, "typical_p": 0.8},
    {"repetition_penalty": 1.3, "no_repeat_ngram": 2, "logit_bias": {9: 3.0}, "temperature": 1.5, "top_k": 9},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_draws_have_the_probabilities_of_transformers(options: dict[str, Any]) -> None:
    expected = processors(options)(TOKENS, logits()).softmax(-1)
    rows = torch.arange(2).repeat_interleave(DRAWS)
    drawn = next_tokens(logits()[rows], TOKENS[rows], **options, generator=torch.Generator().manual_seed(0))
    for row in range(2):
        shares = torch.bincount(drawn[row * DRAWS : (row + 1) * DRAWS], minlength=VOCAB) / DRAWS
        torch.testing.assert_close(shares, expected[row], rtol=0, atol=0.006)
        assert not shares[expected[row] == 0].any()


def test_presence_and_frequency_penalize_what_was_added_and_not_the_prompt() -> None:
    values = torch.zeros(1, 5)
    tokens = torch.tensor([[0, 0, 1, 2, 2]])  # of which 2, 2 and 1 were added
    seen: list[Tensor] = []

    def keep(_: Tensor, scores: Tensor) -> Tensor:
        seen.append(scores)
        return scores

    next_tokens(values, tokens, 2, presence_penalty=0.5, frequency_penalty=0.25, logits_processor=keep)
    torch.testing.assert_close(seen[0], torch.tensor([[0.0, -0.75, -1.0, 0.0, 0.0]]))


@pytest.mark.parametrize(
    "options", [OPTIONS[4], OPTIONS[7], OPTIONS[10], {"repetition_penalty": 1.2, "no_repeat_ngram": 2}], ids=str
)
def test_the_likeliest_texts_are_those_of_transformers(options: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=VOCAB, max_position_embeddings=64, **sizes, eos_token_id=None)
    model = transformers.LlamaForCausalLM(config).eval()
    names = {"no_repeat_ngram": "no_repeat_ngram_size"}
    theirs = {names.get(key, key): value for key, value in options.items() if key != "logit_bias"}
    if "logit_bias" in options:
        theirs["sequence_bias"] = {(token,): bias for token, bias in options["logit_bias"].items()}
    expected = model.generate(TOKENS[:1], max_new_tokens=20, do_sample=False, **theirs)
    from burnlike.models import stream

    assert [*stream(model, TOKENS[0], 20, **options)] == expected[0, TOKENS.shape[1] :].tolist()


def test_a_processor_sees_all_tokens_of_each_step() -> None:
    lengths: list[int] = []

    def only_even(tokens: Tensor, scores: Tensor) -> Tensor:
        lengths.append(tokens.shape[1])
        return scores.index_fill(-1, torch.arange(1, VOCAB, 2), -torch.inf)

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": VOCAB, "d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 1}
    model = DecoderLmConfig(max_sequence_length=32, **sizes).init()
    text = model.generate(TOKENS, 6, logits_processor=only_even, temperature=1.0)
    assert (text[:, TOKENS.shape[1] :] % 2 == 0).all()
    assert lengths == [*range(TOKENS.shape[1], TOKENS.shape[1] + 6)]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"min_p": 0.0}, "min_p: expected more than 0 and at most 1, got 0.0"),
    ({"typical_p": 1.5}, "typical_p: expected more than 0 and at most 1, got 1.5"),
    ({"repetition_penalty": 0.0}, "repetition_penalty: expected more than 0, got 0.0"),
    ({"presence_penalty": float("nan")}, "presence_penalty: expected a finite number, got nan"),
    ({"frequency_penalty": float("inf")}, "frequency_penalty: expected a finite number, got inf"),
    ({"no_repeat_ngram": 0}, "no_repeat_ngram: expected 1 or more, got 0"),
    ({"temperature": float("inf")}, "temperature: expected a finite number, 0 or more, got inf"),
    ({"logit_bias": {3: float("inf")}}, "logit_bias: expected finite numbers or -inf, got {3: inf}"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=str)
def test_options_outside_of_their_ranges_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        Sampler(**options)
    assert str(refused.value) == message


def test_what_a_draw_lacks_is_named() -> None:
    with pytest.raises(ArgumentError, match="expected the tokens so far"):
        Sampler(repetition_penalty=1.2).draw(logits())
    with pytest.raises(ShapeError, match=r"logits_processor: expected logits of \[2, 24\], got NoneType"):
        Sampler(logits_processor=lambda *_: None).draw(logits(), TOKENS)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nothing_is_drawn_from_logits_that_are_none(value: float) -> None:
    broken = logits().index_fill(0, torch.tensor([1]), value)
    with pytest.raises(ArgumentError, match="got NaN, infinity, or -inf for all tokens"):
        Sampler(temperature=1.0).draw(broken)
