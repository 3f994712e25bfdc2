"""The configs of recurrent layers. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...config import ModuleConfig
from ...config.bounds import Positive, Size
from ..activation.configs import GLUConfig, SigmoidConfig, TanhConfig
from ..initializers.configs import Initializer, XavierNormal
from ..roles import ActivationConfig

if TYPE_CHECKING:
    from .gru import BiGru, Gru
    from .lstm import BiLstm, Lstm
    from .rnn import BiRnn, Rnn


def _wrong_activations(config: Any, *names: str) -> Iterable[tuple[str, str]]:
    for name in names:
        if isinstance(getattr(config, name), GLUConfig):
            yield name, "expected an activation that keeps the size, got GLU, which halves it"


class RnnConfig(ModuleConfig["Rnn"], tag="Rnn", builds=".rnn"):
    """h_t = tanh(x_t @ W_i + b_i + h_(t-1) @ W_h + b_h) (Elman 1990).

    Attributes:
        d_input: size of the last dimension of the input.
        d_hidden: size of the hidden state.
        bias: whether both linear transforms of the gate have a bias.
        initializer: of weights and biases.
        batch_first: whether the input is `[batch, sequence, d_input]`, else `[sequence, batch, d_input]`.
        reverse: whether the sequence is read from its end.
        clip: largest absolute value in the hidden state.
        hidden_activation: in the place of tanh.
    """

    d_input: Size
    d_hidden: Size
    bias: bool
    initializer: Initializer = XavierNormal()
    batch_first: bool = True
    reverse: bool = False
    clip: Positive | None = None
    hidden_activation: ActivationConfig = TanhConfig()

    def validate(self) -> Iterable[tuple[str, str]]:
        return _wrong_activations(self, "hidden_activation")


class BiRnnConfig(ModuleConfig["BiRnn"], tag="BiRnn", builds=".rnn"):
    """Two of `Rnn`, of which one reads the sequence from its end (Schuster & Paliwal 1997).

    Attributes:
        d_input: size of the last dimension of the input.
        d_hidden: size of the hidden state of each direction.
        bias: whether both linear transforms of the gates have a bias.
        initializer: of weights and biases.
        batch_first: whether the input is `[batch, sequence, d_input]`, else `[sequence, batch, d_input]`.
        clip: largest absolute value in the hidden state.
        hidden_activation: in the place of tanh.
    """

    d_input: Size
    d_hidden: Size
    bias: bool
    initializer: Initializer = XavierNormal()
    batch_first: bool = True
    clip: Positive | None = None
    hidden_activation: ActivationConfig = TanhConfig()

    def validate(self) -> Iterable[tuple[str, str]]:
        return _wrong_activations(self, "hidden_activation")


class LstmConfig(ModuleConfig["Lstm"], tag="Lstm", builds=".lstm"):
    """Long short-term memory with a forget gate (Hochreiter & Schmidhuber 1997, Gers et al. 2000).

    Attributes:
        d_input: size of the last dimension of the input.
        d_hidden: size of the hidden state and of the cell.
        bias: whether both linear transforms of the gates have a bias.
        initializer: of weights and biases.
        batch_first: whether the input is `[batch, sequence, d_input]`, else `[sequence, batch, d_input]`.
        reverse: whether the sequence is read from its end.
        clip: largest absolute value in the cell.
        input_forget: whether the forget gate is 1 minus the input gate (Greff et al. 2017), and so has no weights.
        gate_activation: of the input, forget and output gates, in the place of the logistic function.
        cell_activation: of what is added to the cell, in the place of tanh.
        hidden_activation: of the cell, for the hidden state, in the place of tanh.
    """

    d_input: Size
    d_hidden: Size
    bias: bool
    initializer: Initializer = XavierNormal()
    batch_first: bool = True
    reverse: bool = False
    clip: Positive | None = None
    input_forget: bool = False
    gate_activation: ActivationConfig = SigmoidConfig()
    cell_activation: ActivationConfig = TanhConfig()
    hidden_activation: ActivationConfig = TanhConfig()

    def validate(self) -> Iterable[tuple[str, str]]:
        return _wrong_activations(self, "gate_activation", "cell_activation", "hidden_activation")


class BiLstmConfig(ModuleConfig["BiLstm"], tag="BiLstm", builds=".lstm"):
    """Two of `Lstm`, of which one reads the sequence from its end (Schuster & Paliwal 1997).

    Attributes:
        d_input: size of the last dimension of the input.
        d_hidden: size of the hidden state and of the cell of each direction.
        bias: whether both linear transforms of the gates have a bias.
        initializer: of weights and biases.
        batch_first: whether the input is `[batch, sequence, d_input]`, else `[sequence, batch, d_input]`.
        clip: largest absolute value in the cell.
        input_forget: whether the forget gate is 1 minus the input gate (Greff et al. 2017), and so has no weights.
        gate_activation: of the input, forget and output gates, in the place of the logistic function.
        cell_activation: of what is added to the cell, in the place of tanh.
        hidden_activation: of the cell, for the hidden state, in the place of tanh.
    """

    d_input: Size
    d_hidden: Size
    bias: bool
    initializer: Initializer = XavierNormal()
    batch_first: bool = True
    clip: Positive | None = None
    input_forget: bool = False
    gate_activation: ActivationConfig = SigmoidConfig()
    cell_activation: ActivationConfig = TanhConfig()
    hidden_activation: ActivationConfig = TanhConfig()

    def validate(self) -> Iterable[tuple[str, str]]:
        return _wrong_activations(self, "gate_activation", "cell_activation", "hidden_activation")


class GruConfig(ModuleConfig["Gru"], tag="Gru", builds=".gru"):
    """Gated recurrent unit (Cho et al. 2014, eq. 5-8).

    Attributes:
        d_input: size of the last dimension of the input.
        d_hidden: size of the hidden state.
        bias: whether both linear transforms of the gates have a bias.
        reset_after: whether the reset gate multiplies the hidden state after its linear transform, as in cuDNN and
            `torch.nn.GRU`, or before it, as in the paper.
        initializer: of weights and biases.
        gate_activation: of the update and reset gates, in the place of the logistic function.
        hidden_activation: of the candidate for the hidden state, in the place of tanh.
        clip: largest absolute value in the hidden state.
    """

    d_input: Size
    d_hidden: Size
    bias: bool
    reset_after: bool = True
    initializer: Initializer = XavierNormal()
    gate_activation: ActivationConfig = SigmoidConfig()
    hidden_activation: ActivationConfig = TanhConfig()
    clip: Positive | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        return _wrong_activations(self, "gate_activation", "hidden_activation")


class BiGruConfig(ModuleConfig["BiGru"], tag="BiGru", builds=".gru"):
    """Two of `Gru`, of which one reads the sequence from its end (Schuster & Paliwal 1997).

    Attributes:
        d_input: size of the last dimension of the input.
        d_hidden: size of the hidden state of each direction.
        bias: whether both linear transforms of the gates have a bias.
        reset_after: whether the reset gate multiplies the hidden state after its linear transform, as in cuDNN and
            `torch.nn.GRU`, or before it, as in the paper.
        initializer: of weights and biases.
        batch_first: whether the input is `[batch, sequence, d_input]`, else `[sequence, batch, d_input]`.
        gate_activation: of the update and reset gates, in the place of the logistic function.
        hidden_activation: of the candidate for the hidden state, in the place of tanh.
        clip: largest absolute value in the hidden state.
    """

    d_input: Size
    d_hidden: Size
    bias: bool
    reset_after: bool = True
    initializer: Initializer = XavierNormal()
    batch_first: bool = True
    gate_activation: ActivationConfig = SigmoidConfig()
    hidden_activation: ActivationConfig = TanhConfig()
    clip: Positive | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        return _wrong_activations(self, "gate_activation", "hidden_activation")
