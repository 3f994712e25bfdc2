"""Layers and losses that later work adds: what is computed with them is skipped, and nothing else is.

Their files are read and written again all the same. A name goes when what it names comes.
"""

from collections.abc import Iterable

from tests.burn_configs import module_types

from .outcomes import LaterError

LAYERS = frozenset(
    (
        "PositionWiseFeedForward",
        *("TransformerEncoder", "TransformerDecoder"),
    )
)
LOSSES = frozenset(
    (
        *("CrossEntropyLoss", "BinaryCrossEntropyLoss", "MseLoss", "HuberLoss", "SmoothL1Loss", "LpLoss", "KLDivLoss"),
        *("PoissonNllLoss", "GaussianNLLLoss", "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss"),
        *("MultiMarginLoss", "SoftMarginLoss", "TripletMarginLoss", "CTCLoss", "RNNTLoss"),
    )
)


def check_layers(names: Iterable[str]) -> None:
    """Skip the case if a layer or loss is of later work.

    Raises:
        LaterError: one is.
    """
    if found := sorted((LAYERS | LOSSES).intersection(names) - {*module_types()}):
        raise LaterError(f"{', '.join(found)}: of later work (layers)")
