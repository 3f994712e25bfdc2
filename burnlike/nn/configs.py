"""The configs of the layers in the files beside this one. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from ..config import Meta, ModuleConfig
from ..config.bounds import Dimension, Finite, NotNegative, Positive, Size
from ..config.roles import Built
from .initializers.configs import Initializer, KaimingUniform, Normal
from .padding import Size2d
from .roles import LayerFacts

if TYPE_CHECKING:
    from . import dropout, embedding, interpolate, linear, similarity

InterpolateMode: TypeAlias = Literal["Nearest", "NearestExact", "Linear", "Cubic", "Lanczos"]
"""How values between the given ones are found: `Nearest` takes the element before, `NearestExact` the nearest one."""
_Factor2d: TypeAlias = Positive | Annotated[tuple[Positive, ...], Meta(min_length=2, max_length=2)]


class LinearConfig(ModuleConfig["linear.Linear"], tag="Linear"):
    """y = x @ weight + bias.

    Attributes:
        d_input: size of the last dimension of x.
        d_output: size of the last dimension of y.
        bias: whether a bias is added.
        initializer: of weight and bias.
        layout: of the weight in records: `row` is `[d_input, d_output]`, `col` is `[d_output, d_input]`, as in
            `torch.nn.Linear`. The module computes with `[d_input, d_output]` in both.
    """

    facts = LayerFacts(last=("d_input", "d_output"), divides_sequences=True)

    d_input: Size
    d_output: Size
    bias: bool = True
    initializer: Initializer = KaimingUniform()
    layout: Literal["row", "col"] = "row"

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"x": ("float32", (1, self.d_input))}


class EmbeddingConfig(ModuleConfig["embedding.Embedding"], tag="Embedding"):
    """A table of vectors that is looked up by number.

    Attributes:
        n_embedding: rows of the table.
        d_model: size of each vector.
        initializer: of the table.
    """

    facts = LayerFacts(last=("", "d_model"), divides_sequences=True)

    n_embedding: Size
    d_model: Size
    initializer: Initializer = Normal()


class DropoutConfig(ModuleConfig["dropout.Dropout"], tag="Dropout"):
    """Zero values with the probability prob in training, scale the rest by 1 / (1 - prob) (Srivastava et al. 2014)."""

    facts = LayerFacts(keeps="all", divides_sequences=True)

    prob: Annotated[float, Meta(ge=0, lt=1)]


class DropPathConfig(ModuleConfig["dropout.DropPath"], tag="DropPath"):
    """Zero each item of the batch with the probability prob in training, scale the rest (Huang et al. 2016)."""

    facts = LayerFacts(keeps="all", divides_sequences=True)

    prob: Annotated[float, Meta(ge=0, lt=1)]


class GaussianNoiseConfig(ModuleConfig["dropout.GaussianNoise"], tag="GaussianNoise"):
    """Add noise of N(0, std^2) in training."""

    facts = LayerFacts(keeps="all", divides_sequences=True)

    std: NotNegative


class CosineSimilarityConfig(ModuleConfig["similarity.CosineSimilarity"], tag="CosineSimilarity"):
    """The cosine of the angle between vectors.

    Attributes:
        dim: along which the vectors lie; negative ones count from the last.
        eps: the smallest length that a vector is divided by.
    """

    facts = LayerFacts(inputs=(2, 2))

    dim: Dimension = 1
    eps: NotNegative = 1e-8


class PairwiseDistanceConfig(ModuleConfig["similarity.PairwiseDistance"], tag="PairwiseDistance"):
    """The p-norm of the difference of vectors.

    Attributes:
        p: of the norm; infinity for the largest difference.
        eps: added to each difference.
    """

    facts = LayerFacts(inputs=(2, 2))

    p: Annotated[float, Meta(ge=0)] = 2.0
    eps: Finite = 1e-6


class _InterpolateConfig(ModuleConfig[Built]):
    """The fields of both interpolations.

    Attributes:
        align_corners: whether the corner elements stay where they are; no effect on the Nearest modes.
    """

    facts = LayerFacts(keeps="channels")

    output_size: Any = None
    scale_factor: Any = None
    mode: InterpolateMode = "Nearest"
    align_corners: bool = True

    def validate(self) -> Iterable[tuple[str, str]]:
        if (self.output_size is None) == (self.scale_factor is None):
            got = "neither" if self.output_size is None else "both"
            yield "output_size", f"expected exactly one of output_size and scale_factor, got {got}"


class Interpolate1dConfig(_InterpolateConfig["interpolate.Interpolate1d"], tag="Interpolate1d"):
    """A sequence of another length; exactly one of `output_size` and `scale_factor` is given.

    Attributes:
        output_size: length of the output.
        scale_factor: length of the output over that of the input; the output's is rounded down.
        mode: how values between the given ones are found.
    """

    output_size: Size | None = None
    scale_factor: Positive | None = None


class Interpolate2dConfig(_InterpolateConfig["interpolate.Interpolate2d"], tag="Interpolate2d"):
    """An image of another size; exactly one of `output_size` and `scale_factor` is given.

    Attributes:
        output_size: of the output; one size, or `[height, width]`.
        scale_factor: size of the output over that of the input, one or `[height, width]`; sizes are rounded down.
        mode: how values between the given ones are found; `Linear` is bilinear, `Cubic` bicubic.
    """

    output_size: Size2d | None = None
    scale_factor: _Factor2d | None = None
