"""Configs of the metrics of numbers, classes and sequences."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from ...config import Meta, MetricConfig
from ...config.bounds import Count, Finite, Positive, at_most

if TYPE_CHECKING:
    from .accuracy import Accuracy, TopKAccuracy
    from .classification import FBetaScore, Hamming, Precision, Recall
    from .confusion import ConfusionStats
    from .curves import AucPr, Auroc
    from .error_rates import CharErrorRate, WordErrorRate
    from .means import LearningRate, Loss
    from .overlap import Bleu, RougeL, RougeN
    from .perplexity import Perplexity

ClassDim = Literal[-1, 1]
"""The dimension of the classes: the last, as of language models, or the second, as of images."""
ClassReduction = Literal["Macro", "Micro"]
"""Macro: the mean of the values of the classes; Micro: the value of all classes counted together."""
Token = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
NGram = Annotated[int, Meta(ge=1), at_most(9, "torchmetrics counts no longer n-grams")]


class LossConfig(MetricConfig, tag="Loss"):
    """The mean loss of all items."""

    higher_is_better = False

    def init(self) -> "Loss":
        from .means import Loss

        return Loss(self)


class LearningRateConfig(MetricConfig, tag="LearningRate"):
    """The mean learning rate of the steps."""

    higher_is_better = False

    def init(self) -> "LearningRate":
        from .means import LearningRate

        return LearningRate(self)


class AccuracyConfig(MetricConfig, tag="Accuracy"):
    """How many targets have the highest score.

    Attributes:
        pad_token: targets that don't count; None counts all.
        class_dim: dimension of the classes in the predictions.
    """

    higher_is_better = True
    pad_token: Token | None = None
    class_dim: ClassDim = -1

    def init(self) -> "Accuracy":
        from .accuracy import Accuracy

        return Accuracy(self)


class TopKAccuracyConfig(MetricConfig, tag="TopKAccuracy"):
    """How many targets are among the k highest scores.

    Attributes:
        k: how many scores.
        pad_token: targets that don't count; None counts all.
        class_dim: dimension of the classes in the predictions.
    """

    higher_is_better = True
    k: Count = 1
    pad_token: Token | None = None
    class_dim: ClassDim = -1

    def init(self) -> "TopKAccuracy":
        from .accuracy import TopKAccuracy

        return TopKAccuracy(self)


class PerplexityConfig(MetricConfig, tag="Perplexity"):
    """exp of the mean cross-entropy of all targets.

    Attributes:
        pad_token: targets that don't count; None counts all.
        class_dim: dimension of the classes in the predictions.
    """

    higher_is_better = False
    pad_token: Token | None = None
    class_dim: ClassDim = -1

    def init(self) -> "Perplexity":
        from .perplexity import Perplexity

        return Perplexity(self)


class _ClassReductionConfig(MetricConfig):
    """Metrics of each class.

    Attributes:
        class_reduction: `Macro`: the mean of the values of the classes; `Micro`: all classes counted together.
        class_dim: dimension of the classes in the predictions.
    """

    higher_is_better = True
    class_reduction: ClassReduction = "Macro"
    class_dim: ClassDim = -1


class _DecisionConfig(_ClassReductionConfig):
    """Metrics of predicted classes.

    Attributes:
        threshold: classes with a higher score are predicted; 0 where scores are logits. Without `threshold` and
            `top_k` it is 0.5.
        top_k: the classes with the k highest scores are predicted.
    """

    threshold: Finite | None = None
    top_k: Count | None = None

    @property
    def limit(self) -> float:
        """The threshold that applies without `top_k`."""
        return 0.5 if self.threshold is None else self.threshold

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.threshold is not None and self.top_k is not None:
            yield "top_k", "expected either threshold or top_k, got both"


class ConfusionStatsConfig(_DecisionConfig, tag="ConfusionStats"):
    """How many predictions are right and wrong, by class."""

    higher_is_better = None

    def init(self) -> "ConfusionStats":
        from .confusion import ConfusionStats

        return ConfusionStats(self)


class PrecisionConfig(_DecisionConfig, tag="Precision"):
    """How many of the predicted classes are right."""

    def init(self) -> "Precision":
        from .classification import Precision

        return Precision(self)


class RecallConfig(_DecisionConfig, tag="Recall"):
    """How many of the true classes are predicted."""

    def init(self) -> "Recall":
        from .classification import Recall

        return Recall(self)


class FBetaScoreConfig(_DecisionConfig, tag="FBetaScore"):
    """The weighted harmonic mean of precision and recall.

    Attributes:
        beta: how many times as much recall counts as precision.
    """

    beta: Annotated[float, Meta(gt=0), at_most(1e6, "more is recall alone")] = 1.0

    def init(self) -> "FBetaScore":
        from .classification import FBetaScore

        return FBetaScore(self)


class HammingConfig(MetricConfig, tag="Hamming"):
    """How many labels are predicted as they are.

    Attributes:
        threshold: labels with a higher score are predicted.
        sigmoid: predictions are logits, whose sigmoid is compared with the threshold.
        class_dim: dimension of the labels in the predictions.
    """

    higher_is_better = True
    threshold: Finite = 0.5
    sigmoid: bool = False
    class_dim: ClassDim = -1

    def init(self) -> "Hamming":
        from .classification import Hamming

        return Hamming(self)


class AurocConfig(_ClassReductionConfig, tag="Auroc"):
    """Area under the curve of true over false positives."""

    def init(self) -> "Auroc":
        from .curves import Auroc

        return Auroc(self)


class AucPrConfig(_ClassReductionConfig, tag="AucPr"):
    """Area under the curve of precision over recall: the average precision."""

    def init(self) -> "AucPr":
        from .curves import AucPr

        return AucPr(self)


class _TokensConfig(MetricConfig):
    """Metrics of sequences of tokens.

    Attributes:
        pad_token: a token that belongs to no sequence; None if there is none.
    """

    pad_token: Token | None = None


class CharErrorRateConfig(_TokensConfig, tag="CharErrorRate"):
    """Edits for each token of the targets, where tokens are characters."""

    higher_is_better = False

    def init(self) -> "CharErrorRate":
        from .error_rates import CharErrorRate

        return CharErrorRate(self)


class WordErrorRateConfig(_TokensConfig, tag="WordErrorRate"):
    """Edits for each token of the targets, where tokens are words."""

    higher_is_better = False

    def init(self) -> "WordErrorRate":
        from .error_rates import WordErrorRate

        return WordErrorRate(self)


class BleuConfig(_TokensConfig, tag="Bleu"):
    """BLEU of a corpus of translations with one reference each (Papineni et al. 2002).

    Attributes:
        max_n: the longest n-grams.
        smoothing: what stands for the precision of n-grams without a match. `none`: 0, and so is the value; `epsilon`:
            `epsilon` matches; `exponential`: half a match, then a quarter, and so on.
        epsilon: for `smoothing: epsilon`.
    """

    higher_is_better = True
    max_n: NGram = 4
    smoothing: Literal["none", "epsilon", "exponential"] = "none"
    epsilon: Positive = 0.1

    def init(self) -> "Bleu":
        from .overlap import Bleu

        return Bleu(self)


class RougeLConfig(_TokensConfig, tag="RougeL"):
    """ROUGE-L: the longest common subsequence (Lin 2004)."""

    higher_is_better = True

    def init(self) -> "RougeL":
        from .overlap import RougeL

        return RougeL(self)


class RougeNConfig(_TokensConfig, tag="RougeN"):
    """ROUGE-N: common n-grams (Lin 2004).

    Attributes:
        n: length of the n-grams.
    """

    higher_is_better = True
    n: NGram = 1

    def init(self) -> "RougeN":
        from .overlap import RougeN

        return RougeN(self)
