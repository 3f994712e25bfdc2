"""The configs of losses. Imports no torch."""

from typing import TYPE_CHECKING, Annotated, Literal

from ...config import Meta, ModuleConfig
from ...config.bounds import Finite, NotNegative, Positive, at_most
from ...config.roles import Built
from ..roles import LayerFacts

if TYPE_CHECKING:
    from . import cross_entropy, elementwise, margins, sequences

Reduction = Literal["mean", "sum", "batch_mean", "auto"]
"""How the values of a loss become one: their mean, their sum, their sum divided by the first size, or as the loss has
it by default."""

_MOST_CLASSES = at_most(2**31 - 1, "no tensor has more classes")
_Class = Annotated[int, Meta(ge=0), _MOST_CLASSES]
_Target = Annotated[int, Meta(ge=-(2**31)), _MOST_CLASSES]
_Weights = Annotated[tuple[Positive, ...], Meta(min_length=1)]
_Smoothing = Annotated[float, Meta(ge=0, le=1)]


class _LossConfig(ModuleConfig[Built]):
    """A loss of predictions and targets."""

    facts = LayerFacts(inputs=(2, 2))


class CrossEntropyLossConfig(_LossConfig["cross_entropy.CrossEntropyLoss"], tag="CrossEntropyLoss"):
    """Minus the logarithm of the probability of the target class.

    Attributes:
        pad_tokens: targets whose rows do not count. They need not be classes: torch's default is `[-100]`.
        weights: one for each class; None counts all alike.
        smoothing: part of the target's probability that is spread over all classes (Szegedy et al. 2016, section 7).
        logits: whether the inputs are logits; otherwise they are probabilities.
    """

    pad_tokens: Annotated[tuple[_Target, ...], Meta(min_length=1)] | None = None
    weights: _Weights | None = None
    smoothing: _Smoothing | None = None
    logits: bool = True


class BinaryCrossEntropyLossConfig(_LossConfig["cross_entropy.BinaryCrossEntropyLoss"], tag="BinaryCrossEntropyLoss"):
    """Minus the logarithm of the probability of the target, yes or no.

    Attributes:
        weights: one for each class, the last dimension; of inputs of one dimension, those of the targets 0 and 1.
        smoothing: part of the target that is spread over all classes.
        logits: whether the inputs are logits; otherwise they are probabilities.
    """

    weights: _Weights | None = None
    smoothing: _Smoothing | None = None
    logits: bool = False


class MseLossConfig(_LossConfig["elementwise.MseLoss"], tag="MseLoss"):
    """The squared difference."""


class HuberLossConfig(_LossConfig["elementwise.HuberLoss"], tag="HuberLoss"):
    """Squared up to delta, linear beyond (Huber 1964)."""

    delta: Positive


class SmoothL1LossConfig(_LossConfig["elementwise.SmoothL1Loss"], tag="SmoothL1Loss"):
    """Huber's loss whose delta is beta, divided by beta (Girshick 2015, eq. 3)."""

    beta: Positive = 1.0


class LpLossConfig(_LossConfig["elementwise.LpLoss"], tag="LpLoss"):
    """The absolute difference to the power p."""

    p: Positive

    @classmethod
    def l1(cls) -> "elementwise.LpLoss":
        """The loss of the absolute difference."""
        return cls(p=1.0).init()

    @classmethod
    def l2(cls) -> "elementwise.LpLoss":
        """The loss of the squared difference."""
        return cls(p=2.0).init()


class KLDivLossConfig(_LossConfig["elementwise.KLDivLoss"], tag="KLDivLoss"):
    """The Kullback-Leibler divergence of predictions from targets: logarithms, the targets with log_target, too."""

    log_target: bool = False


class PoissonNllLossConfig(_LossConfig["elementwise.PoissonNllLoss"], tag="PoissonNllLoss"):
    """Minus the logarithm of the likelihood of counts under a Poisson distribution.

    Attributes:
        log_input: whether the predictions are logarithms of rates; otherwise they are rates.
        full: whether Stirling's approximation of log(target!) is added, for targets above 1.
        eps: added to rates before their logarithm is taken.
    """

    log_input: bool = True
    full: bool = False
    eps: Positive = 1e-8


class GaussianNLLLossConfig(_LossConfig["elementwise.GaussianNLLLoss"], tag="GaussianNLLLoss"):
    """Minus the logarithm of the likelihood under normal distributions (Nix & Weigend 1994).

    Attributes:
        eps: the least variance.
        full: whether the constant log(2 pi) / 2 is added.
    """

    facts = LayerFacts(inputs=(3, 3))

    eps: Positive = 1e-6
    full: bool = False


class CTCLossConfig(_LossConfig["sequences.CTCLoss"], tag="CTCLoss"):
    """Connectionist temporal classification (Graves et al. 2006): all alignments of a target with a longer sequence.

    Attributes:
        blank: the class that stands for no label.
        zero_infinity: whether the loss of a target that has no alignment is 0 instead of infinity.
    """

    facts = LayerFacts(inputs=(4, 4))

    blank: _Class = 0
    zero_infinity: bool = False


class RNNTLossConfig(_LossConfig["sequences.RNNTLoss"], tag="RNNTLoss"):
    """The transducer's loss (Graves 2012): all alignments of a target with a sequence.

    Attributes:
        blank: the class that stands for a step in time.
        logits: whether the inputs are logits; otherwise they are logarithms of probabilities.
    """

    facts = LayerFacts(inputs=(4, 4))

    blank: _Class = 0
    logits: bool = True


class CosineEmbeddingLossConfig(_LossConfig["margins.CosineEmbeddingLoss"], tag="CosineEmbeddingLoss"):
    """Draws pairs of vectors together or apart by their angle.

    Attributes:
        margin: cosine up to which vectors are apart enough.
        reduction: of `forward`.
    """

    facts = LayerFacts(inputs=(3, 3))

    margin: Annotated[float, Meta(ge=-1, le=1)] = 0.0
    reduction: Literal["mean", "sum", "auto"] = "mean"


class HingeEmbeddingLossConfig(_LossConfig["margins.HingeEmbeddingLoss"], tag="HingeEmbeddingLoss"):
    """Distances of pairs: small if they belong together, at least the margin if not."""

    margin: Finite = 1.0


class MarginRankingLossConfig(_LossConfig["margins.MarginRankingLoss"], tag="MarginRankingLoss"):
    """A loss for which of two scores is to be the larger one, by the margin."""

    facts = LayerFacts(inputs=(3, 3))

    margin: NotNegative = 0.0


class MultiMarginLossConfig(_LossConfig["margins.MultiMarginLoss"], tag="MultiMarginLoss"):
    """The score of the target class is to exceed the others by the margin; what is missing counts to the power p."""

    margin: NotNegative = 1.0
    p: Literal[1, 2] = 1


class SoftMarginLossConfig(_LossConfig["margins.SoftMarginLoss"], tag="SoftMarginLoss"):
    """The logistic loss of targets -1 and 1."""


class TripletMarginLossConfig(_LossConfig["margins.TripletMarginLoss"], tag="TripletMarginLoss"):
    """An anchor is to be nearer to one vector than to another, by the margin in the p-norm (Balntas et al. 2016)."""

    facts = LayerFacts(inputs=(3, 3))

    margin: Finite = 1.0
    p: Positive = 2.0
