"""Weights of Mistral, as transformers' `MistralForCausalLM` has them. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ..decoder_lm_configs import DecoderLmConfig, GatedPart
from .llama import ATTENTION, GATED, IGNORED, TIED, decoder_config
from .options import activation_of
from .table import WeightTable


def config_of(values: Mapping[str, Any]) -> DecoderLmConfig:
    """The config of transformers' model, of its `config.json`.

    Raises:
        ConfigError: it has options that ours does not have.
    """
    return decoder_config(values).replace(
        sliding_window=values.get("sliding_window"),
        feed_forward=GatedPart(activation=activation_of(values.get("hidden_act", "silu"))),
    )


MISTRAL = WeightTable(
    name="mistral",
    model_types=("mistral",),
    config=config_of,
    tensors={**ATTENTION, **GATED},
    tied=TIED,
    ignored=IGNORED,
)
