"""The configs of encoders in the layout of BERT. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Layers, Positive, Size
from ...nn.activation.rectifier_configs import GeluConfig
from ...nn.attention.configs import Probability
from ...nn.roles import ActivationConfig

if TYPE_CHECKING:
    from .model import BertClassifier, BertEncoder, BertMaskedLm


class BertEncoderConfig(ModuleConfig["BertEncoder"], tag="BertEncoder", builds=".model"):
    """A bidirectional encoder whose layers normalize the sum of each part and its input (Devlin et al. 2019).

    Attributes:
        vocab_size: tokens.
        max_sequence_length: longest sequence it can read.
        d_model: size of a position's vector.
        n_layers: layers.
        n_heads: attention heads of a layer; must divide d_model.
        d_ff: inner size of the feed-forward parts.
        n_token_types: kinds of tokens, such as those of a first and a second sentence.
        dropout: probability of dropping a value of the embeddings and of each part's output, in training.
        attention_dropout: probability of dropping an attention weight, in training.
        activation: of the feed-forward parts.
        norm_epsilon: epsilon of the norms.
        pooler: whether one vector is made of each sequence: tanh of a linear map of its first position.
    """

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


class BertMaskedLmConfig(ModuleConfig["BertMaskedLm"], tag="BertMaskedLm", builds=".model"):
    """An encoder with a head that names the token of each position, of masked ones above all (Devlin et al. 2019).

    Attributes:
        encoder: the encoder, without a pooler, which nothing would use.
    """

    encoder: BertEncoderConfig

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.encoder.pooler:
            yield "encoder", "expected pooler: false, as nothing here uses what a pooler makes"

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return self.encoder.example_inputs()


class BertClassifierConfig(ModuleConfig["BertClassifier"], tag="BertClassifier", builds=".model"):
    """An encoder with a linear map of its pooled vector to the classes of a sequence (Devlin et al. 2019, section 4.1).

    Attributes:
        encoder: the encoder, with its pooler.
        n_classes: classes.
        dropout: probability of dropping a value of the pooled vector, in training.
    """

    encoder: BertEncoderConfig
    n_classes: Size
    dropout: Probability = 0.1

    def validate(self) -> Iterable[tuple[str, str]]:
        if not self.encoder.pooler:
            yield "encoder", "expected pooler: true, as the classes are told by the pooled vector"

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return self.encoder.example_inputs()
