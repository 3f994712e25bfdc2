"""The config of the recurrent language model. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Layers, Size
from ...nn.attention.configs import Probability

if TYPE_CHECKING:
    from . import model


class LstmLmConfig(ModuleConfig["model.LstmLm"], tag="LstmLm"):
    """A language model of layers of LSTM, dropout between them (Zaremba et al. 2014).

    Attributes:
        d_model: size of a token's vector.
        d_hidden: size of the hidden state and of the cell of each layer.
        dropout: probability of dropping a value of a layer's input, and of the head's, in training.
        tied_head: whether the head is the transposed embedding, without a bias (Press & Wolf 2017); d_hidden must then
            be d_model.
    """

    vocab_size: Size
    d_model: Size
    d_hidden: Size
    n_layers: Layers = 2
    dropout: Probability = 0.0
    tied_head: bool = False

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.tied_head and self.d_hidden != self.d_model:
            yield "d_hidden", f"expected d_model ({self.d_model}) with a tied head, got {self.d_hidden}"

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"tokens": ("int64", (1, 32))}
