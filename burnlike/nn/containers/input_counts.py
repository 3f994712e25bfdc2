"""How many inputs a layer takes, so that a graph is checked without torch. Imports no torch."""

from ...config import ModuleConfig
from ...config.registry import tag_of

Counts = tuple[int, int | None]
"""The least number of inputs and the largest; None for any number."""

_OF_ONE_INPUT = frozenset(
    ("activation", "blocks", "conv", "dropout", "embedding", "interpolate", "linear", "norm", "operations", "pool")
)
"""The families whose layers take one input, but for those of the table below."""

_COUNTS: dict[str, Counts] = {
    **dict.fromkeys(("Add", "Concat", "Multiply"), (2, None)),
    **dict.fromkeys(("BinaryCrossEntropyLoss", "CrossEntropyLoss", "SmoothL1Loss", "HingeEmbeddingLoss"), (2, 2)),
    **dict.fromkeys(("HuberLoss", "KLDivLoss", "LpLoss", "MseLoss", "MultiMarginLoss"), (2, 2)),
    **dict.fromkeys(("PoissonNllLoss", "SoftMarginLoss", "CosineSimilarity", "PairwiseDistance"), (2, 2)),
    **dict.fromkeys(("CosineEmbeddingLoss", "GaussianNLLLoss", "MarginRankingLoss", "TripletMarginLoss"), (3, 3)),
    **dict.fromkeys(("CTCLoss", "RNNTLoss"), (4, 4)),
    **dict.fromkeys(("CrossAttention", "DeformConv2d", "RelativePositionBias"), (2, 3)),
    **dict.fromkeys(("Rnn", "BiRnn", "Gru", "BiGru", "Lstm", "BiLstm"), (1, 2)),
    "MultiHeadAttention": (1, 5),
    "TransformerDecoder": (2, 6),
}


def input_counts(config: ModuleConfig) -> Counts:
    """The number of inputs of a layer; one or more where it is not known."""
    own = config.input_counts
    if own is not None:
        return own
    package, *path = type(config).__module__.split(".")
    if package != "burnlike" or path[0] != "nn":
        return 1, None
    return _COUNTS.get(tag_of(type(config)) or "", (1, 1) if path[1] in _OF_ONE_INPUT else (1, None))
