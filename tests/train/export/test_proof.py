"""What is compared of a program that was exported."""

import pytest
import torch
from torch import Tensor

from burnlike.errors import ConfigError
from burnlike.train.export.programs import proof


class Echo:
    """Gives each token as a row of two numbers."""

    output_names = ("logits",)

    def __call__(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        return [input_ids.float()[..., None].expand(-1, -1, 2)]


def test_what_stands_at_padding_is_not_compared() -> None:
    example = {"input_ids": torch.arange(6).reshape(2, 3), "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])}
    vary = {name: {0: "batch"} for name in example}

    def run(inputs, wrong):
        found = Echo()(**inputs)[0].clone()
        found[inputs["attention_mask"] == wrong] = torch.nan
        return [found]

    proof(Echo(), example, vary, lambda inputs: run(inputs, 0), "it")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="it computes something else: logits"):
        proof(Echo(), example, vary, lambda inputs: run(inputs, 1), "it")  # type: ignore[arg-type]
