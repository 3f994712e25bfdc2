"""The configs of transformers. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Layers, NotNegative, Size
from ...config.roles import Built
from ..activation.configs import GatedLinearConfig, GeluConfig, SiLUConfig, SwiGluConfig
from ..attention.configs import MultiHeadAttentionConfig, Probability
from ..initializers.configs import Initializer, KaimingUniform
from ..norm.configs import LayerNormConfig
from ..roles import ActivationConfig, LayerFacts

if TYPE_CHECKING:
    from . import feed_forward, transformer


class PositionWiseFeedForwardConfig(
    ModuleConfig["feed_forward.PositionWiseFeedForward"], tag="PositionWiseFeedForward"
):
    """linear_outer(dropout(activation(linear_inner(x)))) at each position (Vaswani et al. 2017, section 3.3).

    Attributes:
        d_model: size of the last dimension.
        d_ff: inner size.
        dropout: probability of dropping an inner value in training.
        initializer: of both linear layers.
        activation: between the linear layers; it keeps the inner size.
    """

    facts = LayerFacts(last=("d_model", "d_model"), divides_sequences=True)

    d_model: Size
    d_ff: Size
    dropout: Probability = 0.1
    initializer: Initializer = KaimingUniform()
    activation: ActivationConfig = GeluConfig()


class GatedFeedForwardConfig(ModuleConfig["feed_forward.GatedFeedForward"], tag="GatedFeedForward"):
    """linear(activation(x w) * (x v)) at each position (Shazeer 2020, eq. 6).

    Attributes:
        d_model: size of the last dimension.
        d_ff: inner size.
        activation: of the gate.
        bias: whether the linear layers have a bias.
        initializer: of the gate's linear layers.
        output_initializer: of the last linear layer.
    """

    facts = LayerFacts(last=("d_model", "d_model"), divides_sequences=True)

    d_model: Size
    d_ff: Size
    activation: ActivationConfig = SiLUConfig()
    bias: bool = False
    initializer: Initializer = KaimingUniform()
    output_initializer: Initializer = KaimingUniform()

    @property
    def gate(self) -> SwiGluConfig | GatedLinearConfig:
        sizes = {"d_input": self.d_model, "d_output": self.d_ff}
        if self.activation == SiLUConfig():
            return SwiGluConfig(**sizes, bias=self.bias, initializer=self.initializer)
        return GatedLinearConfig(**sizes, activation=self.activation, bias=self.bias, initializer=self.initializer)


class MixtureOfExpertsConfig(ModuleConfig["feed_forward.MixtureOfExperts"], tag="MixtureOfExperts"):
    """Gated feed-forward parts, of which each position takes a few (Shazeer et al. 2017; Jiang et al. 2024).

    Attributes:
        d_model: size of the last dimension.
        d_ff: inner size of an expert.
        n_experts: how many there are.
        n_selected: how many a position takes; 1 as in Switch (Fedus et al. 2021), 2 as in Mixtral.
        normalized: whether the weights of those that are taken are divided by their sum.
        activation: of the experts' gates.
        initializer: of the router and of the gates' linear layers.
        output_initializer: of the experts' last linear layers.
    """

    facts = LayerFacts(divides_sequences=True)

    d_model: Size
    d_ff: Size
    n_experts: Layers
    n_selected: Size = 2
    normalized: bool = True
    activation: ActivationConfig = SiLUConfig()
    initializer: Initializer = KaimingUniform()
    output_initializer: Initializer = KaimingUniform()

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.n_selected > self.n_experts:
            yield "n_selected", f"expected at most n_experts ({self.n_experts}), got {self.n_selected}"


class _StackConfig(ModuleConfig[Built]):
    """The fields of a stack of encoder layers and of one of decoder layers.

    Attributes:
        d_model: size of a position's vector.
        d_ff: inner size of the feed-forward parts.
        n_heads: attention heads of a layer; must divide d_model.
        n_layers: layers.
        dropout: probability of dropping an attention weight, an inner value, and a value of each part's output.
        norm_first: whether parts get normalized vectors, in place of what is added up being normalized.
        quiet_softmax: whether attention weights may all be near 0.
        initializer: of all linear layers.
        activation: of the feed-forward parts.
        layer_norm_eps: epsilon of the norms.
    """

    d_model: Size
    d_ff: Size
    n_heads: Size
    n_layers: Layers
    dropout: Probability = 0.1
    norm_first: bool = False
    quiet_softmax: bool = False
    initializer: Initializer = KaimingUniform()
    activation: ActivationConfig = GeluConfig()
    layer_norm_eps: NotNegative = 1e-5

    @property
    def attention(self) -> MultiHeadAttentionConfig:
        names = ("d_model", "n_heads", "dropout", "quiet_softmax", "initializer")
        return MultiHeadAttentionConfig(**{name: getattr(self, name) for name in names})

    @property
    def feed_forward(self) -> PositionWiseFeedForwardConfig:
        names = ("d_model", "d_ff", "dropout", "initializer", "activation")
        return PositionWiseFeedForwardConfig(**{name: getattr(self, name) for name in names})

    @property
    def norm(self) -> LayerNormConfig:
        return LayerNormConfig(d_model=self.d_model, epsilon=self.layer_norm_eps)

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.d_model % self.n_heads:
            yield "n_heads", f"expected a divisor of d_model ({self.d_model}), got {self.n_heads}"


class TransformerEncoderConfig(_StackConfig["transformer.TransformerEncoder"], tag="TransformerEncoder"):
    """Layers of self-attention and a feed-forward part (Vaswani et al. 2017, section 3.1)."""

    facts = LayerFacts(inputs=(1, 3), last=("d_model", "d_model"), divides_sequences=True)


class TransformerDecoderConfig(_StackConfig["transformer.TransformerDecoder"], tag="TransformerDecoder"):
    """Layers of self-attention, attention to a memory, and a feed-forward part (Vaswani et al. 2017, section 3.1)."""

    facts = LayerFacts(inputs=(2, 6))
