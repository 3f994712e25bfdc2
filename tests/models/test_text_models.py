"""Models over an encoder of texts, by the vectors of their encoder; and the inputs that a task gives to a model."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn as torch_nn
from torch.nn import functional

from burnlike import models, nn
from burnlike.config import ModuleConfig
from burnlike.errors import ArgumentError, ConfigError
from burnlike.train.tasks.task import call

ENCODER = models.BertEncoderConfig(
    vocab_size=9, max_sequence_length=8, d_model=8, n_layers=1, n_heads=2, d_ff=12, dropout=0.0, attention_dropout=0.0
)
TOKENS = torch.tensor([[1, 5, 6, 2, 0, 0], [1, 3, 4, 5, 6, 2]])
MASK = torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6])


def built(config: ModuleConfig) -> Any:
    torch.manual_seed(0)
    return config.init().double().eval()


def test_the_vector_of_a_text_is_the_mean_of_its_tokens_or_its_first() -> None:
    mean, first = (
        built(models.TextClassifierConfig(encoder=ENCODER, n_classes=3, pooling=it)) for it in ("mean", "cls")
    )
    for model, vector in ((mean, lambda it: it[0, :4].mean(0)), (first, lambda it: it[0, 0])):
        hidden = model.encoder(TOKENS[:1, :4]).hidden
        expected = vector(hidden) @ model.head.weight + model.head.bias
        torch.testing.assert_close(model(TOKENS, MASK)[0], expected)


def test_the_classes_of_tokens_do_not_depend_on_padding() -> None:
    model = built(models.TokenTaggerConfig(encoder=ENCODER, n_classes=3))
    torch.testing.assert_close(model(TOKENS, MASK)[:1, :4], model(TOKENS[:1, :4]))
    assert model(TOKENS, MASK).shape == (2, 6, 3)


def test_the_texts_of_a_pair_do_not_see_each_other() -> None:
    model = built(models.SiameseConfig(encoder=ENCODER))
    pairs = torch.tensor([[5, 6, 7, 5, 6, 7], [5, 6, 3, 4, 0, 0]])
    types, mask = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0]]), torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    one, other = (model.encoder(it).hidden.mean(1) for it in (pairs[1:, :2], pairs[1:, 2:4]))
    expected = torch.cat([torch.ones(1).double(), functional.cosine_similarity(one, other)])
    torch.testing.assert_close(model(pairs, mask, types)[:, 0], expected)
    with pytest.raises(ConfigError, match=r"gives one number, the cosine .* say `n_classes: 2`"):
        models.SiameseConfig(encoder=ENCODER).for_sizes(None, 2)
    classes = built(models.SiameseConfig(encoder=ENCODER, n_classes=3))
    one, other = (classes.encoder(it).hidden.mean(1) for it in (pairs[1:, :2], pairs[1:, 2:4]))
    expected = torch.cat([one, other, (one - other).abs()], 1) @ classes.head.weight + classes.head.bias
    torch.testing.assert_close(classes(pairs, mask, types)[1:], expected)
    with pytest.raises(ArgumentError, match=r"Siamese: expected token_types, .* `data.text` to two columns"):
        model(pairs, mask)


class Mean(torch_nn.Module):
    """A model of the user's, which takes the tokens alone, under its own name."""

    def forward(self, x: Tensor) -> Tensor:
        return x.double().mean(1)


class Masked(torch_nn.Module):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return (input_ids * attention_mask).double().sum(1)


EMBED = "{type: Embedding, n_embedding: 9, d_model: 4}"
ONE_INPUT = f"{{type: Graph, inputs: [NAME], nodes: {{embed: {EMBED}, mean: {{type: Mean, dims: [1]}}}}}}"
ROW = f"{{type: Sequential, layers: [{EMBED}, {{type: Mean, dims: [1]}}]}}"


@pytest.mark.parametrize("text", [ROW, *(ONE_INPUT.replace("NAME", it) for it in ("input_ids", "tokens", "x"))])
def test_a_model_of_layers_need_not_take_the_mask(text: str) -> None:
    model = built(ModuleConfig.from_yaml(text))
    batch = {"input_ids": TOKENS, "attention_mask": MASK, "special_tokens_mask": MASK}
    expected = (model[0] if isinstance(model, nn.Sequential) else model.embed)(TOKENS).mean(1)
    torch.testing.assert_close(call(model, batch), expected)
    torch.testing.assert_close(call(torch_nn.parallel.DataParallel(model), batch), expected)


def test_a_model_gets_what_it_takes() -> None:
    batch = {"input_ids": TOKENS, "token_type_ids": TOKENS % 2, "attention_mask": MASK, "word_ids": TOKENS}
    torch.testing.assert_close(call(Mean(), batch), TOKENS.double().mean(1))
    torch.testing.assert_close(call(Masked(), batch), (TOKENS * MASK).double().sum(1))
    bert = built(models.BertClassifierConfig(encoder=ENCODER, n_classes=3))
    torch.testing.assert_close(call(bert, batch), bert(TOKENS, MASK, TOKENS % 2))
    assert not torch.equal(call(bert, batch), bert(TOKENS, MASK))
