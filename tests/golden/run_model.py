"""The model of a training run that Burn made, from the text that describes it."""

import re
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from burnlike import nn as layers
from burnlike.module import Module

from .outcomes import CheckError

_TEXT = (
    r"embed: Embedding\((?P<n_embedding>\d+), (?P<d_model>\d+)\); encoder: TransformerEncoder\(d_model (?P=d_model),"
    r" d_ff (?P<d_ff>\d+), heads (?P<n_heads>\d+), layers (?P<n_layers>\d+), dropout 0(?P<norm_first>, norm_first)?\);"
    r" mean over the sequence; norm: BatchNorm\((?P=d_model)\) in training mode;"
    r" head: Linear\((?P=d_model), (?P<n_classes>\d+)\)"
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the text of a model says."""

    n_embedding: int
    d_model: int
    d_ff: int
    n_heads: int
    n_layers: int
    n_classes: int
    norm_first: bool

    @classmethod
    def of(cls, text: str) -> Self:
        """The sizes in a text.

        Raises:
            CheckError: it describes another model.
        """
        found = re.fullmatch(_TEXT, text)
        if found is None:
            raise CheckError(f"the model {text!r} is unknown")
        names = ("n_embedding", "d_model", "d_ff", "n_heads", "n_layers", "n_classes")
        return cls(*(int(found[name]) for name in names), norm_first=found["norm_first"] is not None)


class Net(Module):
    """An encoder of sequences of numbers, and what classifies the mean over a sequence."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embed = layers.EmbeddingConfig(n_embedding=sizes.n_embedding, d_model=sizes.d_model).init()
        self.encoder = layers.TransformerEncoderConfig(
            d_model=sizes.d_model,
            d_ff=sizes.d_ff,
            n_heads=sizes.n_heads,
            n_layers=sizes.n_layers,
            dropout=0.0,
            norm_first=sizes.norm_first,
        ).init()
        self.norm = layers.BatchNormConfig(num_features=sizes.d_model).init()
        self.head = layers.LinearConfig(d_input=sizes.d_model, d_output=sizes.n_classes).init()

    def forward(self, tokens: Tensor) -> Tensor:
        """`[batch, length] -> [batch, n_classes]`."""
        return self.head(self.norm(self.encoder(self.embed(tokens)).mean(1)))
