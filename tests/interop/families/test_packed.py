"""Which causal language models of transformers keep packed documents apart, found by the trial that trainings make."""

from pathlib import Path

import pytest
import torch
from transformers.models.auto import configuration_auto, modeling_auto

from burnlike.errors import ConfigError
from burnlike.train.tasks.token_batches import arguments_of, expect_apart

from .tiny_transformers import NotTiny, families, tiny_model

REFUSED = Path(__file__).with_name("not_packed.txt")
SIZES = (7, 4, 9)


@pytest.mark.families
def test_the_trial_of_packing_says_of_every_family_what_is_true():
    refused = []
    for family in families():
        config = configuration_auto.CONFIG_MAPPING[family]
        if modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING.get(config, None) is None:
            continue
        try:
            model, _ = tiny_model(family)
        except NotTiny:
            continue
        try:
            expect_apart(
                model, {"input_ids": torch.randint(4, 60, (1, 30), generator=torch.Generator().manual_seed(2))}
            )
        except ConfigError as error:
            refused.append(f"{family}: {str(error).split(': ')[1].split(';')[0]}")
            continue
        assert _difference(model) < 1e-4, family
    assert refused == REFUSED.read_text().splitlines()


@torch.no_grad()
def _difference(model) -> float:
    """How far the logits of packed documents are from those of each alone, relative to the largest."""
    model.eval()
    tokens = torch.randint(4, 60, (sum(SIZES),), generator=torch.Generator().manual_seed(3))
    positions = torch.cat([torch.arange(it) for it in SIZES])
    packed = _logits(model, {"input_ids": tokens[None], "position_ids": positions[None]})
    alone = torch.cat([_logits(model, {"input_ids": it[None]}) for it in tokens.split(SIZES)])
    return ((packed - alone).abs().max() / alone.abs().max()).item()


def _logits(model, inputs) -> torch.Tensor:
    positional, named = arguments_of(model, inputs)
    return model(*positional, **named).logits[0]
