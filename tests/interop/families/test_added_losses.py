"""What each family of transformers adds to cross-entropy in its own loss is added in training, or refused by name."""

from typing import Any

import pytest
import torch
from transformers.models.auto import configuration_auto, modeling_auto

from burnlike.errors import ConfigError
from burnlike.train import SequenceToSequence, next_token_loss

from .tiny_transformers import NotTiny, families, tiny_model

REFUSED = {"nllb-moe"}
"""Encoders and decoders with experts, whose own loss weighs several terms."""
ADDING = {"bamba", "granitemoe", "jetmoe", "mixtral", "olmoe", "phimoe", "qwen2_moe", "qwen3_moe"}
"""Some that add a term: the test would be empty without them."""


def adds(config: Any) -> bool:
    """True if the config of a family, or of its text, can ask for a loss beside cross-entropy."""
    text = config.get_text_config()
    return any(hasattr(it, name) for it in (config, text) for name in ("output_router_logits", "z_loss_coefficient"))


def ask(model: Any) -> None:
    for config in {id(it): it for it in (model.config, model.config.get_text_config())}.values():
        if hasattr(config, "output_router_logits"):
            config.output_router_logits = True
    if hasattr(model, "z_loss_coefficient"):
        model.z_loss_coefficient = 0.01


@pytest.mark.families
def test_the_loss_of_a_training_is_that_of_the_model():
    added, refused, different = set(), set(), {}
    for family in families():
        kind = configuration_auto.CONFIG_MAPPING[family]
        is_decoder = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING.get(kind, None) is not None
        is_pair = modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING.get(kind, None) is not None
        if not (is_decoder or is_pair):
            continue
        try:
            model, _ = tiny_model(family)
        except NotTiny:
            continue
        if not adds(model.config):
            continue
        ask(model)
        model.train()
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        tokens = torch.randint(4, 60, (2, 9), generator=torch.Generator().manual_seed(2))
        batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}
        try:
            torch.manual_seed(4)
            own = model(**batch)
        except Exception:  # of a foreign model, such as one whose few layers have no experts
            own = None
        if own is None and not is_pair:
            continue
        try:
            torch.manual_seed(4)
            step = next_token_loss if is_decoder else SequenceToSequence().train_step
            found = step(model, batch).loss
        except ConfigError as error:
            refused.add(family if "beside cross-entropy" in str(error) else f"{family}: {error}")
            continue
        if own is None:
            continue
        logits, targets = (own.logits[:, :-1], tokens[:, 1:]) if is_decoder else (own.logits, tokens)
        plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        if not torch.allclose(found, own.loss, rtol=1e-4, atol=1e-4):
            different[family] = float(found.detach()), float(own.loss.detach()), float(plain.detach())
        if abs(float((own.loss - plain).detach())) > 1e-3:
            added.add(family)
    assert different == {}
    assert refused == REFUSED
    assert added >= ADDING
