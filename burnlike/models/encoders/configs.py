"""The configs of BERT, of vision transformers, and of models over an encoder of texts. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Self

from ...config import ModuleConfig
from ...config.bounds import FROM_DATA, Layers, NotNegative, Outputs, Positive, Size
from ...config.roles import Built
from ...errors import ConfigError
from ...nn.activation.configs import GeluConfig
from ...nn.attention.configs import Probability
from ...nn.padding import Size2d, each
from ...nn.roles import ActivationConfig, LayerFacts

if TYPE_CHECKING:
    from . import model, text_models


class VisionTransformerConfig(ModuleConfig["model.VisionTransformer"], tag="VisionTransformer"):
    """A transformer that classifies images by their patches (Dosovitskiy et al. 2021).

    Attributes:
        num_classes: of the result, in a job those of the data, else 1000; None for no head, whose input is the
            result then.
        image_size: of the images; one size, or `[height, width]`, as in patch_size.
        patch_size: of the patches, which don't overlap; must divide image_size.
        d_model: size of a patch's vector.
        n_heads: attention heads of a block; must divide d_model.
        d_ff: inner size of the feed-forward parts.
        dropout: probability of dropping a value of the patches' vectors and of each part's output in training.
        attention_dropout: probability of dropping an attention weight in training.
        drop_path: probability that a part of the last block is left out for an item in training; it grows from 0 at the
            first.

    Example:
        >>> VisionTransformerConfig.small(num_classes=10, image_size=32, patch_size=4).n_patches
        64
    """

    usual_outputs = 1000

    num_classes: Outputs | None = FROM_DATA
    image_size: Size2d = 224
    patch_size: Size2d = 16
    channels: Size = 3
    d_model: Size = 768
    n_layers: Layers = 12
    n_heads: Size = 12
    d_ff: Size = 3072
    dropout: Probability = 0.0
    attention_dropout: Probability = 0.0
    drop_path: Probability = 0.0
    activation: ActivationConfig = GeluConfig()
    norm_epsilon: NotNegative = 1e-6

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.d_model % self.n_heads:
            yield "n_heads", f"expected a divisor of d_model ({self.d_model}), got {self.n_heads}"
        image, patch = each(self.image_size, 2), each(self.patch_size, 2)
        if any(size % its for size, its in zip(image, patch, strict=True)):
            yield "patch_size", f"expected a divisor of image_size ({list(image)}), got {list(patch)}"

    @property
    def grid(self) -> tuple[int, int]:
        """Height and width of an image, in patches."""
        (height, width), (patch_height, patch_width) = each(self.image_size, 2), each(self.patch_size, 2)
        return height // patch_height, width // patch_width

    @property
    def n_patches(self) -> int:
        """The number of patches of an image."""
        return self.grid[0] * self.grid[1]

    @classmethod
    def tiny(cls, **fields: Any) -> Self:
        """6 million parameters (Touvron et al. 2021, table 1), 1000 classes; `fields` are the config's, as in all of
        these.
        """
        return cls.base(**{"d_model": 192, "n_heads": 3, "d_ff": 768, **fields})

    @classmethod
    def small(cls, **fields: Any) -> Self:
        """22 million parameters (Touvron et al. 2021, table 1)."""
        return cls.base(**{"d_model": 384, "n_heads": 6, "d_ff": 1536, **fields})

    @classmethod
    def base(cls, **fields: Any) -> Self:
        """86 million parameters (Dosovitskiy et al. 2021, table 1)."""
        return cls(**{"num_classes": 1000, **fields})

    @classmethod
    def large(cls, **fields: Any) -> Self:
        """307 million parameters (Dosovitskiy et al. 2021, table 1)."""
        return cls.base(**{"d_model": 1024, "n_layers": 24, "n_heads": 16, "d_ff": 4096, **fields})

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"x": ("float32", (1, self.channels, *each(self.image_size, 2)))}


class BertEncoderConfig(ModuleConfig["model.BertEncoder"], tag="BertEncoder"):
    """A bidirectional encoder whose layers normalize the sum of each part and its input (Devlin et al. 2019).

    Attributes:
        max_sequence_length: longest sequence it can read.
        d_model: size of a position's vector.
        n_heads: attention heads of a layer; must divide d_model.
        d_ff: inner size of the feed-forward parts.
        n_token_types: kinds of tokens, such as those of a first and a second sentence.
        dropout: probability of dropping a value of the embeddings and of each part's output, in training.
        attention_dropout: probability of dropping an attention weight, in training.
        pooler: whether one vector is made of each sequence: tanh of a linear map of its first position.
    """

    facts = LayerFacts(inputs=(1, None), gives_several=True)

    vocab_size: Size
    max_sequence_length: Size
    d_model: Size
    n_layers: Layers
    n_heads: Size
    d_ff: Size
    n_token_types: Size = 2
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.1
    activation: ActivationConfig = GeluConfig()
    norm_epsilon: Positive = 1e-12
    pooler: bool = True

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.d_model % self.n_heads:
            yield "n_heads", f"expected a divisor of d_model ({self.d_model}), got {self.n_heads}"

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"tokens": ("int64", (1, self.max_sequence_length))}


class _OverEncoderConfig(ModuleConfig[Built]):
    """The field that models over an encoder have."""

    encoder: BertEncoderConfig

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return self.encoder.example_inputs()


class BertMaskedLmConfig(_OverEncoderConfig["model.BertMaskedLm"], tag="BertMaskedLm"):
    """An encoder with a head that names the token of each position, of masked ones above all (Devlin et al. 2019).

    Attributes:
        encoder: the encoder, without a pooler, which nothing would use.
    """

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.encoder.pooler:
            yield "encoder", "expected pooler: false, as nothing here uses what a pooler makes"


class BertClassifierConfig(_OverEncoderConfig["model.BertClassifier"], tag="BertClassifier"):
    """An encoder with a linear map of its pooled vector to the classes of a sequence (Devlin et al. 2019, section 4.1).

    Attributes:
        encoder: the encoder, with its pooler.
        dropout: probability of dropping a value of the pooled vector, in training.
    """

    n_classes: Outputs = FROM_DATA
    dropout: Probability = 0.1

    def validate(self) -> Iterable[tuple[str, str]]:
        if not self.encoder.pooler:
            yield "encoder", "expected pooler: true, as the classes are told by the pooled vector"


class TextClassifierConfig(_OverEncoderConfig["text_models.TextClassifier"], tag="TextClassifier"):
    """An encoder of texts with a linear map of one vector of each text to its classes, or numbers.

    Attributes:
        encoder: the encoder; its `pooler` does not count.
        pooling: the vector of a text: the `mean` over its tokens, or that of its first token (`cls`), which the
            tokenizer puts before each text.
        dropout: probability of dropping a value of the vector, in training.
    """

    n_classes: Outputs = FROM_DATA
    pooling: Literal["mean", "cls"] = "mean"
    dropout: Probability = 0.1


class TokenTaggerConfig(_OverEncoderConfig["text_models.TokenTagger"], tag="TokenTagger"):
    """An encoder of texts with a linear map of the vector of each token to its classes: names, parts of speech.

    Attributes:
        encoder: the encoder; its `pooler` does not count.
        dropout: probability of dropping a value of the vectors, in training.
    """

    n_classes: Outputs = FROM_DATA
    dropout: Probability = 0.1


class SiameseConfig(_OverEncoderConfig["text_models.Siamese"], tag="Siamese"):
    """One encoder for both texts of a pair, neither of which sees the other (Reimers & Gurevych 2019).

    Attributes:
        encoder: the encoder; its `pooler` does not count.
        n_classes: classes of a pair, by a linear map of (u, v, |u - v|), where u and v are the means over the tokens of
            each text; None: the result is their cosine, one number, as of a `Regression`.
    """

    n_classes: Size | None = None

    def for_sizes(self, d_input: int | None, d_output: int | None) -> "SiameseConfig":
        """See `ModuleConfig.for_sizes`; ConfigError where one cosine would stand for the logits of classes."""
        if self.n_classes is None and d_output is not None and d_output > 1:
            raise ConfigError(
                f"Siamese: without `n_classes` it gives one number, the cosine of both texts, for a Regression; the"
                f" data has {d_output} classes or numbers: say `n_classes: {d_output}`"
            )
        return self

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        example = self.encoder.example_inputs()["tokens"]
        return {"tokens": example, "token_types": example}
