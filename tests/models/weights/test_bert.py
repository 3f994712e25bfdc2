"""Weights of BERT: transformers' model and those with its heads."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from burnlike.errors import ConfigError, RecordMismatchError
from burnlike.models import (
    BertClassifierConfig,
    BertEncoderConfig,
    load_pretrained,
    pretrained_config,
    record_from,
    weight_table,
)
from burnlike.record import open_record

from .transformers_models import TOLERANCE, expect_saved_back, randomized, saved

SIZES: dict[str, Any] = {
    "vocab_size": 13,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 9,
    "type_vocab_size": 3,
}
TOKENS = torch.randint(13, (2, 7), generator=torch.Generator().manual_seed(1))
TYPES = torch.randint(3, (2, 7), generator=torch.Generator().manual_seed(2))
MASK = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1] * 7])


def expect_equal(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_transformers_encoder(tmp_path: Path) -> None:
    theirs = randomized(transformers.BertModel(transformers.BertConfig(**SIZES)))
    ours: Any = load_pretrained(saved(theirs, tmp_path)).eval()
    for mask, types in ((None, None), (MASK, None), (MASK, TYPES)):
        found, expected = ours(TOKENS, mask, types), theirs(TOKENS, mask, types)
        expect_equal(found.hidden, expected.last_hidden_state)
        expect_equal(found.pooled, expected.pooler_output)
    expect_saved_back(ours, tmp_path, "bert")


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_transformers_masked_lm(activation: str, tmp_path: Path) -> None:
    theirs = randomized(transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, hidden_act=activation)))
    ours = load_pretrained(saved(theirs, tmp_path)).eval()
    expect_equal(ours(TOKENS, MASK, TYPES), theirs(TOKENS, MASK, TYPES).logits)
    expect_saved_back(ours, tmp_path, "bert")


def test_transformers_classifier(tmp_path: Path) -> None:
    config = transformers.BertConfig(**{**SIZES, "num_labels": 4, "classifier_dropout": 0.3})
    theirs = randomized(transformers.BertForSequenceClassification(config))
    ours: Any = load_pretrained(saved(theirs, tmp_path)).eval()
    assert ours.dropout.prob == 0.3
    expect_equal(ours(TOKENS, MASK, TYPES), theirs(TOKENS, MASK, TYPES).logits)
    expect_saved_back(ours, tmp_path, "bert")


@pytest.mark.parametrize("head", [transformers.BertForMaskedLM, transformers.BertForSequenceClassification])
def test_the_encoder_of_a_model_with_a_head_alone(head: Any, tmp_path: Path) -> None:
    theirs = randomized(head(transformers.BertConfig(**SIZES)))
    record, table = open_record(saved(theirs, tmp_path)), weight_table("bert")
    config: Any = table.config({**SIZES, "model_type": "bert"})
    assert isinstance(config, BertEncoderConfig)
    ours = config.replace(pooler=theirs.bert.pooler is not None).init().double().eval()
    record_from(table, ours, record).load_into(ours)
    expect_equal(ours(TOKENS, MASK).hidden, theirs.bert(TOKENS, MASK).last_hidden_state)


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_for_masked_tokens_is_left_out_without_one(tied: bool, tmp_path: Path) -> None:
    """Files of older versions repeat the embedding as the decoder's weight; a head of its own has other values."""
    theirs = randomized(transformers.BertForPreTraining(transformers.BertConfig(**SIZES)))
    state, table = theirs.state_dict(), weight_table("bert")
    assert "cls.predictions.decoder.weight" in state
    if not tied:
        state = {**state, "cls.predictions.decoder.weight": torch.zeros(13, 8)}
    encoder: Any = table.config(SIZES)
    for config in (encoder, BertClassifierConfig(encoder=encoder, n_classes=2)):
        ours = config.init().double().eval()
        if config is not encoder:
            head = {f"classifier.{name}": tensor for name, tensor in theirs.cls.seq_relationship.state_dict().items()}
            state = {**state, **head}
        record_from(table, ours, state).load_into(ours)
        found = ours if config is encoder else ours.encoder
        expect_equal(found(TOKENS, MASK).hidden, theirs.bert(TOKENS, MASK).last_hidden_state)


def test_what_pretraining_had_besides_is_left_out(tmp_path: Path) -> None:
    theirs = randomized(transformers.BertForPreTraining(transformers.BertConfig(**SIZES)))
    ours = load_pretrained(saved(theirs, tmp_path)).eval()
    expect_equal(ours(TOKENS, MASK), theirs(TOKENS, MASK).prediction_logits)


def test_files_with_the_old_names_of_norms() -> None:
    state, table = transformers.BertModel(transformers.BertConfig(**SIZES)).state_dict(), weight_table("bert")
    ends = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    old = {f"bert.{name}": tensor for name, tensor in state.items()}
    for now, before in ends.items():
        old = {name.replace(now, before): tensor for name, tensor in old.items()}
    ours = table.config(SIZES).init()
    found, expected = record_from(table, ours, old).tensors, record_from(table, ours, state).tensors
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


def test_a_head_of_its_own_is_refused() -> None:
    theirs = transformers.BertForMaskedLM(transformers.BertConfig(**SIZES))
    state, table = theirs.state_dict(), weight_table("bert")
    ours = table.config({**SIZES, "architectures": ["BertForMaskedLM"]}).init()
    record_from(table, ours, state)
    other = {**state, "cls.predictions.decoder.weight": torch.zeros(13, 8)}
    with pytest.raises(RecordMismatchError, match=r"cls.predictions.decoder.weight: expected the values of 'bert.emb"):
        record_from(table, ours, other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"is_decoder": True}, "is_decoder: expected False, got True"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type: expected 'absolute'"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings: expected True, got False"),
        ({"hidden_act": "quick_gelu"}, "there is no activation 'quick_gelu'"),
    ],
)
def test_what_ours_lacks_is_refused_by_name(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **SIZES, **options}))
    with pytest.raises(ConfigError, match=message):
        pretrained_config(tmp_path)
