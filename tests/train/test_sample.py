"""Sampling token by token."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.models.generation import stop_tokens
from burnlike.train import LanguageModelConfig, sample


class Counting(nn.Module):
    """Says that the token after t is t + 1 (of 10), almost surely; notes what it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[list[int]] = []

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        self.shown.append(tokens[0].tolist())
        return 50.0 * nn.functional.one_hot((tokens + 1) % 10, 10).float()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_continues_the_prompt_and_shows_the_context_only(temperature: float) -> None:
    model = Counting().train()
    added = sample(model, torch.tensor([3, 4]), length=4, context_length=3, temperature=temperature)
    assert added.tolist() == [5, 6, 7, 8]
    assert model.shown == [[3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7]]
    assert model.training


def test_draws_depend_on_the_seed_only() -> None:
    class Flat(nn.Module):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return torch.zeros(1, tokens.shape[1], 10)

    def draw(seed: int) -> list[int]:
        return sample(Flat(), torch.tensor([0]), length=50, context_length=1, seed=seed).tolist()

    first = draw(1)
    torch.rand(3)
    before = torch.get_rng_state()
    assert draw(1) == first != draw(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert set(first) == set(range(10))


@pytest.mark.parametrize(("ends", "of_data", "answer"), [
    (None, (), "567890"), (8, (), "567"), ([9, 7], (), "56"), ([9, 8], (6,), "5"), (8, (9,), "567"),
])  # fmt: skip
def test_an_answer_ends_where_the_model_or_its_data_say(ends: Any, of_data: tuple[int, ...], answer: str) -> None:
    class Codec:
        context_length, stop_tokens = None, frozenset(of_data)

        def decode(self, tokens: torch.Tensor) -> str:
            return "".join(map(str, tokens.tolist()))

    model: Any = Counting()
    model.generation_config = SimpleNamespace(eos_token_id=ends)
    prompt = torch.tensor([3, 4])
    task = LanguageModelConfig(sample_length=6).init()
    assert task.predict(model, {"input_ids": [prompt], "codec": Codec()}, {}) == [{"answer": answer}]
    stops = stop_tokens(model, Codec())
    assert stops == tuple(sorted({*of_data, *([] if ends is None else ends if isinstance(ends, list) else [ends])}))
    assert sample(model, prompt, length=6, context_length=3, stops=stops).tolist() == [*map(int, answer)]
