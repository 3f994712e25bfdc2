"""Context parallelism: which models take parts of sequences, and how their attention learns of them."""

import sys
from typing import Any

from torch import nn

from ...nn.divided_sequence import NAME, DividedSequence


def divide_sequences(model: nn.Module, sequence: DividedSequence) -> None:
    """Let all parts of a model ask `sequence` whether they get parts of sequences."""
    for module in model.modules():
        module.__dict__[NAME] = sequence
    base: Any = getattr(sys.modules.get("transformers"), "PreTrainedModel", ())
    for module in model.modules():
        if isinstance(module, base):
            from .context_transformers import use_divided_attention

            use_divided_attention(module)
