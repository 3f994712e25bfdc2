"""Rotary positional encoding, on neighbouring pairs as in Burn or on halves."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...errors import ArgumentError
from ...module import Content
from ...ops import rotary, rotary_reference
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, exports_to_onnx, shape_error
from .configs import RotaryEncodingConfig


class RotaryEncoding(KeepsType, Layer):
    """Rotate the pair (x[2i], x[2i+1]) at position p by p * theta^(-2i/d) (Su et al. 2021, eq. 34). Torch: -.

    With `interleaved=False` the pair is (x[i], x[i + d/2]), as in GPT-NeoX and Llama's weights of `transformers`. The
    tables are computed, never saved; `init_from` asks for them through `reset_non_persistent_buffers`.

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
        shape = (config.max_sequence_length, config.rotated // 2)
        # Not `empty_like`: on the meta device it makes torch import its symbolic shapes, half a second.
        self.register_buffer("cosine", torch.empty(shape, device=device), persistent=False)
        self.register_buffer("sine", torch.empty(shape, device=device), persistent=False)
        if not self.cosine.is_meta:
            self.reset_non_persistent_buffers(self.cosine.device)

    def reset_non_persistent_buffers(self, device: torch.device) -> None:
        """Compute the tables anew on `device`."""
        positions = torch.arange(self.config.max_sequence_length, dtype=torch.int64, device="cpu")
        # A table for one length would be wrong for the others: those of `by_length` are for the original length.
        cosine, sine = self._computed(positions, self._rates())
        self.cosine, self.sine = cosine.to(device), sine.to(device)

    def _computed(self, positions: Tensor, rates: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, float32 `[..., rotated / 2]`, of `positions` at the frequencies `rates`."""
        angle = (positions + self.start_offset).double()[..., None] * rates
        scaling = self.config.scaling
        magnitude = 1.0 if scaling is None else scaling.magnitude
        return (angle.cos() * magnitude).float(), (angle.sin() * magnitude).float()

    def _rates(self) -> Tensor:
        """The frequencies, those of `by_length` for the original length; float64 `[rotated / 2]` on the CPU."""
        if self._scaled is None:
            return _frequencies(self.config)
        return torch.tensor(self._scaled, dtype=torch.float64, device="cpu")

    @property
    def theta(self) -> Tensor:
        """The frequencies, float32 `[rotated / 2]`."""
        return self._rates().to(self.cosine.device, torch.float32)

    @property
    def freq_complex(self) -> Tensor:
        """Cosine and sine of each position for each rotated value, `[max_sequence_length, rotated, 2]`."""
        table = torch.stack((self.cosine, self.sine), -1)
        return table.repeat_interleave(2, 1) if self.config.interleaved else table.repeat(1, 2, 1)

    @property
    def by_length(self) -> bool:
        """True if the frequencies depend on the sequence's length."""
        return self._scaled is None and self.config.scaling is not None and self.config.scaling.by_length

    @lift
    def forward(self, x: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """Rotate rows `start`, `start + 1`, ... of the tables into `[..., sequence, d_model]`, in x's dtype.

        Args:
            start: position of the first element, for generation with a cache; it counts from `start_offset`.
            positions: int64 `[sequence]`, or `[batch, sequence]` for x `[batch, heads, sequence, d_model]`; in
                place of `start`. Each is below `max_sequence_length`. Frequencies that depend on the sequence's length
                are those for the highest position of all rows.

        Raises ShapeError if x reaches past `max_sequence_length` without positions, or its last dimension is not
        `d_model`.
        """
        self._check(x, start, positions)
        # The op takes [batch, heads, sequence, d_model] and two tensors; the other has no heads.
        heads = x[(None,) * (4 - x.ndim)] if x.ndim < 4 else x.flatten(0, -4)
        rotated, _ = self._both(heads, heads.new_empty((heads.shape[0], 0, *heads.shape[2:])), start, positions)
        return rotated.reshape(x.shape)

    def rotate_both(
        self, query: Tensor, key: Tensor, start: int = 0, positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `forward`, query and key `[batch, heads, sequence, d_model]` of torch at once; their heads may differ."""
        self._check(query, start, positions)
        return self._both(query, key, start, positions)

    def _check(self, x: Tensor, start: int, positions: Tensor | None) -> None:
        length, d_model = self.config.max_sequence_length, self.config.d_model
        end = 0 if positions is not None or x.ndim < 2 else start + x.shape[-2]  # a row may be of several texts
        if x.ndim < 2 or x.shape[-1] != d_model or start < 0 or end > length:
            expected = f"[..., sequence, {d_model}] with 0 <= start and start + sequence <= {length}"
            raise shape_error(self, expected, f"{list(x.shape)} and start {start}")

    def _both(self, query: Tensor, key: Tensor, start: int, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        cosine, sine = self._rows(start, start + query.shape[-2], positions)
        # ONNX does not have the native op.
        rotate = rotary_reference if exports_to_onnx() else rotary
        return rotate(query, key, cosine, sine, interleaved=self.config.interleaved)

    def _rows(self, start: int, end: int, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[sequence, rotated / 2]`, or `[batch, sequence, rotated / 2]`."""
        if self.by_length:
            device = self.cosine.device
            length = torch.full((), end, device=device) if positions is None else positions.amax() + 1
            positions = torch.arange(start, end, device=device) if positions is None else positions
            scaling = self.config.scaling
            assert scaling is not None
            rates = self._rates().to(length.device)
            return self._computed(positions, scaling.scaled_by_length(rates, (length + self.start_offset).double()))
        if positions is None:
            return self.cosine[start:end], self.sine[start:end]
        return self.cosine[positions], self.sine[positions]

    def apply(self, x: Any, start: int = 0) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Burn's name of `forward`. Of a function it is `torch.nn.Module.apply`."""
        return super().apply(x) if callable(x) else self(x, start)  # pyright: ignore[reportArgumentType]

    def shift(self, start: int) -> None:
        """Let the tables begin at the position `start`, to go on past their end.

        Raises ArgumentError if they begin there or behind it already; `reset` goes back to 0.
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
    size, scaling = config.rotated, config.scaling
    if scaling is None:
        return config.theta ** (-torch.arange(0, size, 2, dtype=torch.float64, device="cpu") / size)
    frequencies = [config.theta ** (-first / size) for first in range(0, size, 2)]
    return torch.tensor(scaling.scaled(frequencies, config.theta), dtype=torch.float64, device="cpu")
