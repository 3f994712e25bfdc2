"""Models of `torch.nn`'s layers that take the weights of ready models."""

import re
from collections.abc import Mapping
from typing import Any

from torch import nn

from burnlike.interop import record_to_torch
from burnlike.models import DecoderLmConfig


def renamed(name: str, names: Mapping[str, str]) -> str:
    """`name` with the patterns of `names` replaced, one after the other."""
    for pattern, other in names.items():
        name = re.sub(pattern, other, name)
    return name


def take_weights(ours: nn.Module, theirs: nn.Module, names: Mapping[str, str]) -> None:
    """Give theirs the weights of ours.

    Args:
        ours: a ready model.
        theirs: of torch's layers.
        names: patterns in the paths of ours, with torch's names of layers' tensors, to what theirs has in place of it.
    """
    state = {renamed(name, names): it for name, it in record_to_torch(ours).tensors.items()}
    counters = {name: it for name, it in theirs.state_dict().items() if name.endswith("num_batches_tracked")}
    theirs.load_state_dict({**counters, **state})


def llama_sizes(config: DecoderLmConfig) -> dict[str, Any]:
    """What a config of transformers' Llama says of these sizes."""
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "max_position_embeddings": config.max_sequence_length,
    }
