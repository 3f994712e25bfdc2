"""Positions as sinusoids that are added."""

import math

import torch
from torch import Tensor

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, shape_error
from .configs import PositionalEncodingConfig


def generate_sinusoids(
    length: int, d_model: int, max_timescale: int, device: torch.device | str | None = None
) -> Tensor:
    """sin and cos of position * max_timescale^(-2i / d_model), in turns (Vaswani et al. 2017, section 3.5).

    Returns:
        float32 `[length, d_model]`, computed in float64 on the CPU, so that every device gets the same.
    """
    rate = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") * (-math.log(max_timescale) / d_model)
    angle = torch.outer(torch.arange(length, dtype=torch.float64, device="cpu"), rate.exp())
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1).float().to(device or torch.get_default_device())


class PositionalEncoding(KeepsType, Layer):
    """x + sinusoids of the position (Vaswani et al. 2017, section 3.5).

    Torch: -.

    Attributes:
        sinusoids: `[1, max_sequence_size, d_model]`; computed, never saved.
    """

    sinusoids: Tensor

    def __init__(self, config: PositionalEncodingConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        table = torch.empty(1, config.max_sequence_size, config.d_model, device=device)
        self.register_buffer("sinusoids", table, persistent=False)
        self.max_sequence_size = config.max_sequence_size
        self.max_timescale = config.max_timescale
        if not table.is_meta:
            self.reset_non_persistent_buffers(table.device)

    def reset_non_persistent_buffers(self, device: torch.device) -> None:
        """Compute the table anew on `device`."""
        _, length, d_model = self.sinusoids.shape
        self.sinusoids = generate_sinusoids(length, d_model, self.max_timescale, device)[None]

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, sequence, d_model] -> [batch, sequence, d_model]`, in x's dtype.

        Raises:
            ShapeError: x has another `d_model`, or more than `max_sequence_size` positions.
        """
        d_model = self.sinusoids.shape[2]
        if x.ndim != 3 or x.shape[2] != d_model or x.shape[1] > self.max_sequence_size:
            raise shape_error(self, f"[batch, sequence <= {self.max_sequence_size}, {d_model}]", list(x.shape))
        return x + self.sinusoids[:, : x.shape[1]].to(x.dtype)

    def record_layout(self) -> dict[str, str]:
        """As Burn's struct; none of it is saved."""
        return dict.fromkeys(("sinusoids", "max_sequence_size", "max_timescale"), "constant")

    def custom_content(self, content: Content) -> Content:
        content = content.add("d_model", self.sinusoids.shape[2]).add("max_sequence_size", self.max_sequence_size)
        return content.add("max_timescale", self.max_timescale)
