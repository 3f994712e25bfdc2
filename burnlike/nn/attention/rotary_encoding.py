"""Rotary position encoding, with interleaved pairs as in Burn."""

import torch
from torch import Tensor

from ...errors import ShapeError
from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..layer import Layer
from .configs import RotaryEncodingConfig


class RotaryEncoding(Layer):
    """Rotate the pair (x[2i], x[2i+1]) at position p by p * theta^(-2i/d) (Su et al. 2021, eq. 34).

    The tables are computed, never saved; `init_from` asks for them through `reset_non_persistent_buffers`.

    Torch: -.
    """

    cosine: Tensor
    sine: Tensor

    def __init__(self, config: RotaryEncodingConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.config = config
        shape = (config.max_sequence_length, config.d_model // 2)
        # Not `empty_like`: on the meta device it makes torch import its symbolic shapes, half a second.
        self.register_buffer("cosine", torch.empty(shape, device=device), persistent=False)
        self.register_buffer("sine", torch.empty(shape, device=device), persistent=False)
        if not self.cosine.is_meta:
            self.reset_non_persistent_buffers(self.cosine.device)

    def reset_non_persistent_buffers(self, device: torch.device) -> None:
        """Compute the tables anew on `device`."""
        config = self.config
        # In float64 on the CPU, so that every device gets the same tables.
        pair = torch.arange(0, config.d_model, 2, dtype=torch.float64, device="cpu")
        position = torch.arange(config.max_sequence_length, dtype=torch.float64, device="cpu")
        angle = torch.outer(position, config.theta ** (-pair / config.d_model))
        self.cosine = angle.cos().float().to(device)
        self.sine = angle.sin().float().to(device)

    @lift
    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Rotate positions `start`, `start + 1`, ... of the second to last dimension.

        Args:
            x: `[..., sequence, d_model]`.
            start: position of the first element, for generation with a cache.

        Returns:
            `[..., sequence, d_model]` in x's dtype.

        Raises:
            ShapeError: x reaches past `max_sequence_length`, or its last dimension is not `d_model`.
        """
        sequence, d_model = x.shape[-2:]
        if start + sequence > self.config.max_sequence_length or d_model != self.config.d_model:
            raise ShapeError(
                f"RotaryEncoding: expected [..., sequence, {self.config.d_model}] with start + sequence <= "
                f"{self.config.max_sequence_length}, got {list(x.shape)} and start {start}"
            )
        cosine = self.cosine[start : start + sequence].to(x.dtype)
        sine = self.sine[start : start + sequence].to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        rotated = torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1)
        return rotated.flatten(-2)

    def record_layout(self) -> dict[str, str]:
        """As Burn's struct, whose tables are in one tensor; none of it is saved."""
        return {"freq_complex": "constant", "theta": "constant", "start_offset": "constant"}

    def custom_content(self, content: Content) -> Content:
        config = self.config
        return content.add("d_model", config.d_model).add("max_sequence_length", config.max_sequence_length)
