"""Speculative decoding: the texts are those without a draft."""

from typing import Any

import pytest
import torch

from burnlike.errors import ArgumentError
from burnlike.models import DecoderLmConfig, DraftModel, LstmLmConfig, stream

from ..marks import weekly
from .test_completions import PROMPTS, small

SIZES: dict[str, Any] = {"vocab_size": 24, "max_sequence_length": 40, "n_heads": 2, "d_ff": 24, "n_layers": 1}


def ours(seed: int, d_model: int = 16) -> Any:
    torch.manual_seed(seed)
    model = DecoderLmConfig(d_model=d_model, **SIZES).init()
    for tensor in model.parameters():
        tensor.data.mul_(12 if tensor.ndim > 1 else 1)
    return model


def similar(model: Any) -> Any:
    """A copy whose numbers differ a little, so that some tokens are right and some are not."""
    other = ours(0)
    other.load_state_dict(model.state_dict())
    for tensor in other.parameters():
        tensor.data += 0.05 * tensor.std() * torch.randn_like(tensor)
    return other


@pytest.mark.parametrize("kind", ["ours", "Llama", "GPTNeoX"])
@pytest.mark.parametrize("n_tokens", [1, 3, 7])
@pytest.mark.parametrize("options", [{}, {"repetition_penalty": 1.4, "no_repeat_ngram": 3}], ids=["", "penalties"])
def test_the_likeliest_tokens_are_those_without_a_draft(kind: str, n_tokens: int, options: dict[str, Any]) -> None:
    model = ours(0) if kind == "ours" else small(kind)
    expected = [*stream(model, PROMPTS[0], 30, **options)]
    assert len({*expected}) > 2
    for draft_model in (model, similar(model) if kind == "ours" else ours(1), ours(2, d_model=8)):
        draft = DraftModel(model=draft_model, n_tokens=n_tokens)
        assert [*stream(model, PROMPTS[0], 30, draft=draft, **options)] == expected
        if draft_model is model:
            assert draft.accepted == draft.proposed > 0
    stop = expected[9]
    ended = expected[: expected.index(stop) + 1]
    draft = DraftModel(model=ours(1), n_tokens=n_tokens)
    assert [*stream(model, PROMPTS[0], 30, draft=draft, stop_tokens=(stop,), **options)] == ended


@pytest.mark.parametrize(
    "options", weekly({"temperature": 1.0}, {"temperature": 0.8, "top_k": 6, "repetition_penalty": 1.3})
)
def test_drawn_texts_have_the_probabilities_of_the_model(options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    sizes: dict[str, Any] = {**SIZES, "vocab_size": 4}
    model, other = (DecoderLmConfig(d_model=16, **sizes).init() for _ in range(2))
    for tensor in (*model.parameters(), *other.parameters()):
        tensor.data.mul_(4 if tensor.ndim > 1 else 1)
    prompt, draws, vocab = torch.tensor([1, 3]), 1200, 4
    draft = DraftModel(model=other, n_tokens=2)
    counts = torch.zeros(vocab, vocab, vocab)
    generator = torch.Generator().manual_seed(0)
    for _ in range(draws):
        counts[tuple(stream(model, prompt, 3, draft=draft, generator=generator, **options))] += 1
    from burnlike.models import Sampler

    sampler, expected = Sampler(**options), torch.ones(vocab, vocab, vocab)
    for text in torch.cartesian_prod(*[torch.arange(vocab)] * 3):
        whole = torch.cat((prompt, text))[None]
        logits = model(whole)[0]
        for place in range(3):
            shares = sampler.probabilities(logits[None, 1 + place], whole[:, : 2 + place], 2)
            expected[tuple(text)] *= shares[0, text[place]].item()
    assert not counts[expected == 0].any()
    cells = expected * draws >= 5
    difference = (counts - draws * expected)[cells]
    chi_square = float((difference**2 / (draws * expected[cells])).sum())
    freedom = int(cells.sum()) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5
    assert 0.1 < draft.accepted / draft.proposed < 0.95


def test_what_can_not_draft_is_refused() -> None:
    model = ours(0)
    lstm = LstmLmConfig(vocab_size=24, d_model=8, d_hidden=8).init()
    with pytest.raises(ArgumentError, match="expected models whose reader can go back, got LstmLm"):
        list(stream(model, PROMPTS[0], 5, draft=DraftModel(model=lstm)))
    other = DecoderLmConfig(d_model=16, **{**SIZES, "vocab_size": 30}).init()
    with pytest.raises(ArgumentError, match="expected a model of 24 tokens, as DecoderLm, got one of 30"):
        list(stream(model, PROMPTS[0], 5, draft=DraftModel(model=other)))
    with pytest.raises(ArgumentError, match="at most 40 tokens together, got a prompt of 5 and max_new_tokens of 36"):
        list(stream(model, PROMPTS[0], 36, draft=DraftModel(model=model)))
    with pytest.raises(ArgumentError, match="n_tokens: expected 1 or more, got 0"):
        DraftModel(model=model, n_tokens=0)
