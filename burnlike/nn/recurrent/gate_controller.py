"""One gate of a recurrent layer."""

import torch
from torch import Tensor

from ...tensor.torch_bridge.torch_function import lift
from ..initializers.configs import Initializer
from ..layer import Layer
from ..linear.configs import LinearConfig
from ..linear.linear import Linear


class GateController(Layer):
    """x @ W_i + b_i + h @ W_h + b_h, before the gate's activation.

    The layers with gates compute those of all gates at once. They take the weights from here, and don't call this.

    Attributes:
        input_transform: of the input, `[..., d_input] -> [..., d_output]`.
        hidden_transform: of the hidden state, `[..., d_output] -> [..., d_output]`.
    """

    input_transform: Linear
    hidden_transform: Linear

    def __init__(
        self,
        d_input: int,
        d_output: int,
        bias: bool,
        initializer: Initializer,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.input_transform = LinearConfig(
            d_input=d_input, d_output=d_output, bias=bias, initializer=initializer
        ).init(device)
        self.hidden_transform = LinearConfig(
            d_input=d_output, d_output=d_output, bias=bias, initializer=initializer
        ).init(device)

    @lift
    def gate_product(self, x: Tensor, hidden: Tensor) -> Tensor:
        """The gate's value before its activation, `[..., d_input], [..., d_output] -> [..., d_output]`.

        Raises:
            ShapeError: the last dimension of `x` or of `hidden` has another size.
        """
        return self.input_transform(x) + self.hidden_transform(hidden)
