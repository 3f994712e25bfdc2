"""Rotary positional encoding on interleaved pairs as in Burn."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...errors import ArgumentError
from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..layer import Layer, shape_error
from .configs import RotaryEncodingConfig


class RotaryEncoding(Layer):
    """Rotate the pair (x[2i], x[2i+1]) at position p by p * theta^(-2i/d) (Su et al. 2021, eq. 34).

    The tables are computed, never saved; `init_from` asks for them through `reset_non_persistent_buffers`.

    Torch: -.

    Attributes:
        start_offset: position of the tables' first row.
    """

    cosine: Tensor
    sine: Tensor

    def __init__(
        self,
        config: RotaryEncodingConfig,
        device: torch.device | str | None = None,
        scaling: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.start_offset = 0
        self._scaled = None if scaling is None else tuple(scaling(_frequencies(config)).tolist())
        shape = (config.max_sequence_length, config.d_model // 2)
        # Not `empty_like`: on the meta device it makes torch import its symbolic shapes, half a second.
        self.register_buffer("cosine", torch.empty(shape, device=device), persistent=False)
        self.register_buffer("sine", torch.empty(shape, device=device), persistent=False)
        if not self.cosine.is_meta:
            self.reset_non_persistent_buffers(self.cosine.device)

    def reset_non_persistent_buffers(self, device: torch.device) -> None:
        """Compute the tables anew on `device`."""
        first = self.start_offset
        position = torch.arange(first, first + self.config.max_sequence_length, dtype=torch.float64, device="cpu")
        angle = torch.outer(position, self._rates())
        self.cosine = angle.cos().float().to(device)
        self.sine = angle.sin().float().to(device)

    def _rates(self) -> Tensor:
        """The frequencies, float64 `[d_model / 2]` on the CPU."""
        if self._scaled is None:
            return _frequencies(self.config)
        return torch.tensor(self._scaled, dtype=torch.float64, device="cpu")

    @property
    def theta(self) -> Tensor:
        """The frequencies, float32 `[d_model / 2]`."""
        return self._rates().to(self.cosine.device, torch.float32)

    @property
    def freq_complex(self) -> Tensor:
        """Cosine and sine of each position for each value, `[max_sequence_length, d_model, 2]`."""
        return torch.stack((self.cosine, self.sine), -1).repeat_interleave(2, 1)

    @lift
    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Rotate rows `start`, `start + 1`, ... of the tables into the second to last dimension.

        Args:
            x: `[..., sequence, d_model]`.
            start: position of the first element, for generation with a cache; it counts from `start_offset`.

        Returns:
            `[..., sequence, d_model]` in x's dtype.

        Raises:
            ShapeError: x reaches past `max_sequence_length`, or its last dimension is not `d_model`.
        """
        length, d_model = self.config.max_sequence_length, self.config.d_model
        if x.ndim < 2 or x.shape[-1] != d_model or start < 0 or start + x.shape[-2] > length:
            expected = f"[..., sequence, {d_model}] with 0 <= start and start + sequence <= {length}"
            raise shape_error(self, expected, f"{list(x.shape)} and start {start}")
        end = start + x.shape[-2]
        cosine, sine = self.cosine[start:end].to(x.dtype), self.sine[start:end].to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        rotated = torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1)
        return rotated.flatten(-2)

    def apply(self, x: Any, start: int = 0) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Burn's name of `forward`. Of a function it is `torch.nn.Module.apply`."""
        return super().apply(x) if callable(x) else self(x, start)  # pyright: ignore[reportArgumentType]

    def shift(self, start: int) -> None:
        """Let the tables begin at the position `start`, to go on past their end.

        Raises:
            ArgumentError: they begin there or behind it already; `reset` goes back to 0.
        """
        if start <= self.start_offset:
            raise ArgumentError(
                f"RotaryEncoding: expected a start behind {self.start_offset}, where the tables begin, got {start};"
                " reset() lets them begin at 0"
            )
        self.start_offset = start
        self.reset_non_persistent_buffers(self.cosine.device)

    def reset(self) -> None:
        """Let the tables begin at the position 0 again."""
        if self.start_offset:
            self.start_offset = 0
            self.reset_non_persistent_buffers(self.cosine.device)

    def record_layout(self) -> dict[str, str]:
        """As Burn's struct, whose tables are in one tensor; none of it is saved."""
        return {"freq_complex": "constant", "theta": "constant", "start_offset": "constant"}

    def custom_content(self, content: Content) -> Content:
        config = self.config
        return content.add("d_model", config.d_model).add("max_sequence_length", config.max_sequence_length)


def _frequencies(config: RotaryEncodingConfig) -> Tensor:
    # In float64 on the CPU, so that every device gets the same tables.
    pair = torch.arange(0, config.d_model, 2, dtype=torch.float64, device="cpu")
    return config.theta ** (-pair / config.d_model)
