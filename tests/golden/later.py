"""Layers, optimizers and runs that later work adds: what is computed with them is skipped, and nothing else is.

Their files are read and written again all the same. A line goes when the layer comes.
"""

from collections.abc import Iterable

from .outcomes import LaterError

LAYERS = frozenset(
    (
        *("BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "LocalResponseNorm"),
        *("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "DeformConv2d"),
        *("Gru", "BiGru", "Lstm", "BiLstm", "Rnn", "BiRnn"),
        *("MultiHeadAttention", "PositionWiseFeedForward", "TransformerEncoder", "TransformerDecoder"),
        *("PositionalEncoding", "PRelu", "Relu", "Gelu", "Sigmoid", "Tanh", "LeakyRelu", "Softplus", "HardSigmoid"),
        *("MaxPool1d", "MaxPool2d", "AvgPool1d", "AvgPool2d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d"),
    )
)
OPTIMIZERS = frozenset(
    ("Adam", "AdaGrad", "Adan", "Adafactor", "Lamb", "Lion", "Lbfgs", "LBFGS", "Muon", "RmsProp", "Sgd")
)


def check_layers(names: Iterable[str]) -> None:
    """Skip the case if a layer is of later work.

    Raises:
        LaterError: one is.
    """
    if found := sorted(LAYERS.intersection(names)):
        raise LaterError(f"{', '.join(found)}: of later work (layers)")


def check_optimizers(names: Iterable[str]) -> None:
    """Skip the case if an optimizer is of later work.

    Raises:
        LaterError: one is.
    """
    if found := sorted(OPTIMIZERS.intersection(names)):
        raise LaterError(f"{', '.join(found)}: of later work (optimizers)")
