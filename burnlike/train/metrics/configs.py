"""Configs of the metrics; torch is not loaded for them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from ...config import Meta, MetricConfig
from ...config.bounds import Count, Finite, NotNegative, Positive, Size, at_most
from ...config.roles import Built

if TYPE_CHECKING:
    from . import classification, images, regression, sequences, system


ClassDim = Literal[-1, 1]
"""The dimension of the classes: the last, as of language models, or the second, as of images."""
ClassReduction = Literal["Macro", "Micro"]
"""Macro: the mean of the values of the classes; Micro: the value of all classes counted together."""
Token = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
NGram = Annotated[int, Meta(ge=1), at_most(9, "torchmetrics counts no longer n-grams")]
KernelSize = Annotated[int, Meta(ge=1), at_most(1023, "a window is smaller than an image")]
Betas = Annotated[tuple[NotNegative, ...], Meta(min_length=1, max_length=16)]


class LossConfig(MetricConfig["system.Loss"], tag="Loss"):
    """The mean loss of all items."""

    higher_is_better = False


class LearningRateConfig(MetricConfig["system.LearningRate"], tag="LearningRate"):
    """The mean learning rate of the steps."""

    higher_is_better = False


class _ScoresConfig(MetricConfig[Built]):
    """Metrics of the scores of classes.

    Attributes:
        pad_token: targets that don't count; None counts all.
        class_dim: dimension of the classes in the predictions; None: as the task says, or the last.
    """

    higher_is_better = True
    pad_token: Token | None = None
    class_dim: ClassDim | None = None


class AccuracyConfig(_ScoresConfig["classification.Accuracy"], tag="Accuracy"):
    """The share of targets with the highest score."""


class TopKAccuracyConfig(_ScoresConfig["classification.TopKAccuracy"], tag="TopKAccuracy"):
    """The share of targets among the k highest scores.

    Attributes:
        k: how many scores.
    """

    k: Count = 1


class PerplexityConfig(_ScoresConfig["classification.Perplexity"], tag="Perplexity"):
    """exp of the mean cross-entropy of all targets."""

    higher_is_better = False


class _ClassReductionConfig(MetricConfig[Built]):
    """Metrics of each class.

    Attributes:
        class_reduction: `Macro`: the mean of the values of the classes; `Micro`: all classes counted together.
        class_dim: dimension of the classes in the predictions; None: as the task says, or the last.
    """

    higher_is_better = True
    class_reduction: ClassReduction = "Macro"
    class_dim: ClassDim | None = None


class _DecisionConfig(_ClassReductionConfig[Built]):
    """Metrics of predicted classes.

    Attributes:
        threshold: classes with a score above it are predicted; of logits, with such a probability.
        top_k: the classes with the k highest scores are predicted. Without `threshold` and `top_k`, each item has the
            class with the highest score; labels, and a single class, are predicted above a probability of 0.5.
    """

    threshold: Finite | None = None
    top_k: Count | None = None

    @property
    def decision(self) -> tuple[int | None, float | None]:
        """The number of best classes that are predicted, or the threshold; both None: neither is chosen."""
        return self.top_k, self.threshold

    @property
    def rule(self) -> str:
        """Burn's text for it."""
        limit = 0.5 if self.threshold is None else self.threshold
        return f"Threshold({limit})" if self.top_k is None else f"TopK({self.top_k})"

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.threshold is not None and self.top_k is not None:
            yield "top_k", "expected either threshold or top_k, got both"


class ConfusionStatsConfig(_DecisionConfig["classification.ConfusionStats"], tag="ConfusionStats"):
    """The numbers of right and wrong predictions, by class."""

    higher_is_better = None


class PrecisionConfig(_DecisionConfig["classification.Precision"], tag="Precision"):
    """The share of predicted classes that are right."""


class RecallConfig(_DecisionConfig["classification.Recall"], tag="Recall"):
    """The share of true classes that are predicted."""


class FBetaScoreConfig(_DecisionConfig["classification.FBetaScore"], tag="FBetaScore"):
    """The weighted harmonic mean of precision and recall.

    Attributes:
        beta: how many times as much recall counts as precision.
    """

    beta: Annotated[float, Meta(gt=0), at_most(1e6, "more is recall alone")] = 1.0


class HammingConfig(MetricConfig["classification.Hamming"], tag="Hamming"):
    """The share of labels that are predicted right.

    Attributes:
        threshold: labels with a higher score are predicted. Without it, each item has the class with the highest
            score, and of several labels those above a probability of 0.5.
        sigmoid: predictions are logits of labels, whose sigmoid is compared with the threshold; tasks say that anyway.
        class_dim: dimension of the labels in the predictions; None: as the task says, or the last.
    """

    higher_is_better = True
    threshold: Finite | None = None
    sigmoid: bool = False
    class_dim: ClassDim | None = None

    @property
    def limit(self) -> float:
        """The threshold of probabilities."""
        return 0.5 if self.threshold is None else self.threshold

    @property
    def decision(self) -> tuple[int | None, float | None]:
        """As of `_DecisionConfig`."""
        return None, self.limit if self.sigmoid else self.threshold


class AurocConfig(_ClassReductionConfig["classification.Auroc"], tag="Auroc"):
    """Area under the curve of true over false positives."""


class AucPrConfig(_ClassReductionConfig["classification.AucPr"], tag="AucPr"):
    """Area under the curve of precision over recall: the average precision."""


class _TokensConfig(MetricConfig[Built]):
    """Metrics of sequences of tokens.

    Attributes:
        pad_token: a token that belongs to no sequence; None if there is none.
    """

    pad_token: Token | None = None


class CharErrorRateConfig(_TokensConfig["sequences.CharErrorRate"], tag="CharErrorRate"):
    """Edits for each token of the targets, where tokens are characters."""

    higher_is_better = False


class WordErrorRateConfig(_TokensConfig["sequences.WordErrorRate"], tag="WordErrorRate"):
    """Edits for each token of the targets, where tokens are words."""

    higher_is_better = False


class BleuConfig(_TokensConfig["sequences.Bleu"], tag="Bleu"):
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


class RougeLConfig(_TokensConfig["sequences.RougeL"], tag="RougeL"):
    """ROUGE-L: the longest common subsequence (Lin 2004)."""

    higher_is_better = True


class RougeNConfig(_TokensConfig["sequences.RougeN"], tag="RougeN"):
    """ROUGE-N: common n-grams (Lin 2004).

    Attributes:
        n: length of the n-grams.
    """

    higher_is_better = True
    n: NGram = 1


class SpanF1Config(MetricConfig["sequences.SpanF1"], tag="SpanF1"):
    """The F1 score of spans of tagged tokens, such as names of persons.

    Attributes:
        classes: the tags by their numbers, such as O, B-person, I-person; None takes the classes of the data.
    """

    higher_is_better = True
    classes: tuple[str, ...] | None = None

    def for_classes(self, classes: Sequence[str] | None) -> "SpanF1Config":
        return self if self.classes is not None or classes is None else self.replace(classes=tuple(classes))


class _NumbersConfig(MetricConfig[Built]):
    """Metrics of numbers, each in the unit of the data; of several targets, each has a value beside their mean.

    Attributes:
        targets: the names of the targets, for values such as `mae.price`; None takes those of the data.
    """

    higher_is_better = False
    targets: tuple[str, ...] | None = None

    def for_classes(self, classes: Sequence[str] | None) -> "MetricConfig":
        return self if self.targets is not None or classes is None else self.replace(targets=tuple(classes))


class MaeConfig(_NumbersConfig["regression.Mae"], tag="Mae"):
    """The mean absolute error."""


class RmseConfig(_NumbersConfig["regression.Rmse"], tag="Rmse"):
    """The root of the mean squared error."""


class MapeConfig(_NumbersConfig["regression.Mape"], tag="Mape"):
    """The mean absolute error in percent of the targets, without targets of 0."""


class R2Config(_NumbersConfig["regression.R2"], tag="R2"):
    """The coefficient of determination: 1 is perfect, 0 as good as the mean of the targets."""

    higher_is_better = True


class DiceConfig(MetricConfig["images.Dice"], tag="Dice"):
    """The overlap of predicted masks and true ones.

    Attributes:
        epsilon: added to both sides of the fraction, so that two empty masks have the value 1.
        include_background: whether class 0 counts; it always does where there is only one.
    """

    higher_is_better = True
    epsilon: Positive = 1e-7
    include_background: bool = False


class PsnrConfig(MetricConfig["images.Psnr"], tag="Psnr"):
    """Peak signal-to-noise ratio of images.

    Attributes:
        max_pixel_val: the largest value that a pixel can have.
        epsilon: the smallest mean squared error, so that equal images have a finite value.
    """

    higher_is_better = True
    max_pixel_val: Positive = 1.0
    epsilon: Positive = 1e-10


class _SimilarityConfig(MetricConfig[Built]):
    """Metrics of structural similarity.

    Attributes:
        pixel_range: the largest value that a pixel can have less the smallest.
        k1: K1 of the paper; steadies the comparison of luminance.
        k2: K2 of the paper; steadies the comparison of contrast.
        kernel_size: side of the Gaussian window in pixels, odd.
        sigma: standard deviation of the window in pixels.
    """

    higher_is_better = True
    pixel_range: Positive = 1.0
    k1: Positive = 0.01
    k2: Positive = 0.03
    kernel_size: KernelSize = 11
    sigma: Positive = 1.5

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.kernel_size % 2 == 0:
            yield "kernel_size", f"expected an odd number, got {self.kernel_size}"


class SsimConfig(_SimilarityConfig["images.Ssim"], tag="Ssim"):
    """Structural similarity of images (Wang et al. 2004)."""


class MsSsimConfig(_SimilarityConfig["images.MsSsim"], tag="MsSsim"):
    """Structural similarity of images at several scales (Wang et al. 2003).

    Attributes:
        channels: of the images.
        betas: the exponent of each scale, from the finest; there are as many scales.
    """

    channels: Size = 3
    betas: Betas = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


class IterationSpeedConfig(MetricConfig["system.IterationSpeed"], tag="IterationSpeed"):
    """Batches per second."""

    higher_is_better = True


class CpuUseConfig(MetricConfig["system.CpuUse"], tag="CpuUse"):
    """The use of the machine's CPUs."""

    higher_is_better = False


class CpuMemoryConfig(MetricConfig["system.CpuMemory"], tag="CpuMemory"):
    """The most memory of the machine that was in use."""

    higher_is_better = False


class CudaUseConfig(MetricConfig["system.CudaUse"], tag="CudaUse"):
    """The use of the current CUDA device; NaN without one, or without the package nvidia-ml-py."""

    higher_is_better = False


class CudaMemoryConfig(MetricConfig["system.CudaMemory"], tag="CudaMemory"):
    """The most memory of the current CUDA device that was in use; NaN without one."""

    higher_is_better = False
