"""The configs of recurrent layers. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Positive, Size
from ...config.roles import Built
from ..activation.configs import GLUConfig, SigmoidConfig, TanhConfig
from ..initializers.configs import Initializer, XavierNormal
from ..roles import ActivationConfig, LayerFacts

if TYPE_CHECKING:
    from . import recurrent


class _RecurrentConfig(ModuleConfig[Built]):
    """The fields of recurrent layers.

    Attributes:
        d_input: size of the last dimension of the input.
        d_hidden: size of the hidden state, of each direction.
        bias: whether both linear transforms of each gate have a bias.
        initializer: of weights and biases.
        batch_first: whether the input is `[batch, sequence, d_input]`, else `[sequence, batch, d_input]`.
        reverse: whether the sequence is read from its end.
        clip: largest absolute value in the hidden state.
        hidden_activation: in the place of tanh.
    """

    facts = LayerFacts(inputs=(1, 3), gives_several=True, last=("d_input", ""), masked=True)

    d_input: Size
    d_hidden: Size
    bias: bool

    def validate(self) -> Iterable[tuple[str, str]]:
        for name in self.__struct_fields__:
            if name.endswith("_activation") and isinstance(getattr(self, name), GLUConfig):
                yield name, "expected an activation that keeps the size, got GLU, which halves it"


class RnnConfig(_RecurrentConfig["recurrent.Rnn"], tag="Rnn"):
    """h_t = tanh(x_t @ W_i + b_i + h_(t-1) @ W_h + b_h) (Elman 1990)."""

    initializer: Initializer = XavierNormal()
    batch_first: bool = True
    reverse: bool = False
    clip: Positive | None = None
    hidden_activation: ActivationConfig = TanhConfig()


class BiRnnConfig(_RecurrentConfig["recurrent.BiRnn"], tag="BiRnn"):
    """Two of `Rnn`, of which one reads the sequence from its end (Schuster & Paliwal 1997)."""

    initializer: Initializer = XavierNormal()
    batch_first: bool = True
    clip: Positive | None = None
    hidden_activation: ActivationConfig = TanhConfig()


class _LstmConfig(_RecurrentConfig[Built]):
    """The fields of both LSTMs.

    Attributes:
        d_hidden: size of the hidden state and of the cell, of each direction.
        clip: largest absolute value in the cell.
        input_forget: whether the forget gate is 1 minus the input gate (Greff et al. 2017), and so has no weights.
        gate_activation: of the input, forget and output gates, in the place of the logistic function.
        cell_activation: of what is added to the cell, in the place of tanh.
        hidden_activation: of the cell, for the hidden state, in the place of tanh.
    """

    initializer: Initializer = XavierNormal()
    batch_first: bool = True


class LstmConfig(_LstmConfig["recurrent.Lstm"], tag="Lstm"):
    """Long short-term memory with a forget gate (Hochreiter & Schmidhuber 1997, Gers et al. 2000)."""

    reverse: bool = False
    clip: Positive | None = None
    input_forget: bool = False
    gate_activation: ActivationConfig = SigmoidConfig()
    cell_activation: ActivationConfig = TanhConfig()
    hidden_activation: ActivationConfig = TanhConfig()


class BiLstmConfig(_LstmConfig["recurrent.BiLstm"], tag="BiLstm"):
    """Two of `Lstm`, of which one reads the sequence from its end (Schuster & Paliwal 1997)."""

    clip: Positive | None = None
    input_forget: bool = False
    gate_activation: ActivationConfig = SigmoidConfig()
    cell_activation: ActivationConfig = TanhConfig()
    hidden_activation: ActivationConfig = TanhConfig()


class _GruConfig(_RecurrentConfig[Built]):
    """The fields of both GRUs.

    Attributes:
        reset_after: whether the reset gate multiplies the hidden state after its linear transform, as in cuDNN and
            `torch.nn.GRU`, or before it, as in the paper.
        gate_activation: of the update and reset gates, in the place of the logistic function.
        hidden_activation: of the candidate for the hidden state, in the place of tanh.
    """

    reset_after: bool = True
    initializer: Initializer = XavierNormal()


class GruConfig(_GruConfig["recurrent.Gru"], tag="Gru"):
    """Gated recurrent unit (Cho et al. 2014, eq. 5-8)."""

    facts = LayerFacts(inputs=(1, 3), last=("d_input", ""), masked=True)

    gate_activation: ActivationConfig = SigmoidConfig()
    hidden_activation: ActivationConfig = TanhConfig()
    clip: Positive | None = None


class BiGruConfig(_GruConfig["recurrent.BiGru"], tag="BiGru"):
    """Two of `Gru`, of which one reads the sequence from its end (Schuster & Paliwal 1997)."""

    batch_first: bool = True
    gate_activation: ActivationConfig = SigmoidConfig()
    hidden_activation: ActivationConfig = TanhConfig()
    clip: Positive | None = None
