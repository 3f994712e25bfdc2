"""How many inputs a layer takes, and whether it gives one tensor: models are checked by it. Imports no torch."""

from ...config import ModuleConfig
from ...config.registry import tag_of

Counts = tuple[int, int | None]
"""The least number of inputs and the largest; None for any number."""

_OF_ONE_INPUT = frozenset(
    ("activation", "blocks", "conv", "dropout", "embedding", "interpolate", "linear", "norm", "operations", "pool")
)
"""The families whose layers take one input, but for those of the table below."""

_COUNTS: dict[str, Counts] = {
    **dict.fromkeys(("Add", "Concat", "Multiply", "Stack"), (2, None)),
    **dict.fromkeys(("Subtract", "Divide", "MatMul"), (2, 2)),
    **dict.fromkeys(("BinaryCrossEntropyLoss", "CrossEntropyLoss", "SmoothL1Loss", "HingeEmbeddingLoss"), (2, 2)),
    **dict.fromkeys(("HuberLoss", "KLDivLoss", "LpLoss", "MseLoss", "MultiMarginLoss"), (2, 2)),
    **dict.fromkeys(("PoissonNllLoss", "SoftMarginLoss", "CosineSimilarity", "PairwiseDistance"), (2, 2)),
    **dict.fromkeys(("CosineEmbeddingLoss", "GaussianNLLLoss", "MarginRankingLoss", "TripletMarginLoss"), (3, 3)),
    **dict.fromkeys(("CTCLoss", "RNNTLoss"), (4, 4)),
    **dict.fromkeys(("CrossAttention", "DeformConv2d", "RelativePositionBias"), (2, 3)),
    **dict.fromkeys(("Rnn", "BiRnn", "BiGru", "Lstm", "BiLstm"), (1, 2)),
    "MultiHeadAttention": (1, 5),
    "TransformerDecoder": (2, 6),
}


_GIVING_SEVERAL = frozenset(("Rnn", "BiRnn", "BiGru", "Lstm", "BiLstm", "MultiHeadAttention", "Split", "BertEncoder"))


def gives_several(config: ModuleConfig) -> bool:
    """Whether a layer of burnlike is known to give several values, such as an output and a state."""
    return _is_ours(config) and tag_of(type(config)) in _GIVING_SEVERAL


def takes_tensors(config: ModuleConfig) -> bool:
    """Whether each input of a layer is known to be one tensor; containers hand on what their layers take."""
    return _is_ours(config) and ".containers." not in type(config).__module__


def _is_ours(config: ModuleConfig) -> bool:
    return type(config).__module__.partition(".")[0] == "burnlike"


def input_counts(config: ModuleConfig) -> Counts:
    """The number of inputs of a layer; one or more where it is not known."""
    own = config.input_counts
    if own is not None:
        return own
    package, *path = type(config).__module__.split(".")
    if package != "burnlike" or path[0] != "nn":
        return 1, None
    return _COUNTS.get(tag_of(type(config)) or "", (1, 1) if path[1] in _OF_ONE_INPUT else (1, None))
