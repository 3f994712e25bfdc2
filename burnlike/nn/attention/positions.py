"""Positions that are added: as sinusoids to vectors, as numbers to the scores of attention."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..divided_sequence import positions_in
from ..layer import Layer, shape_error
from .configs import PositionalEncodingConfig, RelativePositionBiasConfig


def generate_sinusoids(
    length: int, d_model: int, max_timescale: int, device: torch.device | str | None = None
) -> Tensor:
    """sin and cos of position * max_timescale^(-2i / d_model), in turns (Vaswani et al. 2017, section 3.5).

    float32 `[length, d_model]`, computed in float64 on the CPU, so that every device gets the same.
    """
    rate = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") * (-math.log(max_timescale) / d_model)
    angle = torch.outer(torch.arange(length, dtype=torch.float64, device="cpu"), rate.exp())
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1).float().to(device or torch.get_default_device())


class PositionalEncoding(KeepsType, Layer):
    """x + sinusoids of the position (Vaswani et al. 2017, section 3.5). Torch: -.

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
        """`[batch, sequence <= max_sequence_size, d_model] -> [batch, sequence, d_model]`, in x's dtype."""
        d_model = self.sinusoids.shape[2]
        if x.ndim != 3 or x.shape[2] != d_model or x.shape[1] > self.max_sequence_size:
            raise shape_error(self, f"[batch, sequence <= {self.max_sequence_size}, {d_model}]", list(x.shape))
        return x + self.sinusoids[:, positions_in(self, x.shape[1])].to(x.dtype)

    def record_layout(self) -> dict[str, str]:
        """As Burn's struct; none of it is saved."""
        return dict.fromkeys(("sinusoids", "max_sequence_size", "max_timescale"), "constant")

    def custom_content(self, content: Content) -> Content:
        content = content.add("d_model", self.sinusoids.shape[2]).add("max_sequence_size", self.max_sequence_size)
        return content.add("max_timescale", self.max_timescale)


def position_buckets(n_buckets: int, max_distance: int, *, bidirectional: bool) -> Tensor:
    """The bucket of each distance -max_distance..max_distance from a query to a key (Raffel et al. 2020, section 2.1).

    Half of the buckets of a direction are for one distance each, the others for ranges that grow by a factor, up to
    `max_distance`. Without `bidirectional` all keys behind the query are in bucket 0. int64 `[2 * max_distance + 1]` on
    the CPU. The logarithms are float32, by which models were trained.
    """
    distance = torch.arange(-max_distance, max_distance + 1, device="cpu")
    first = torch.zeros_like(distance)
    if bidirectional:
        n_buckets //= 2
        first = (distance > 0) * n_buckets
        distance = distance.abs()
    else:
        distance = -distance.clamp(max=0)
    exact = n_buckets // 2
    ranges = torch.log(distance.float() / exact) / math.log(max_distance / exact) * (n_buckets - exact)
    far = (exact + ranges.clamp(min=0).long()).clamp(max=n_buckets - 1)
    return first + torch.where(distance < exact, distance, far)


class RelativePositionBias(Layer):
    """A number for each head and each bucket of distances, which attention adds to its scores (Raffel et al. 2020).

    Torch: -.

    Attributes:
        weight: `[n_buckets, n_heads]`.
        buckets: `[2 * max_distance + 1]`, the bucket of each distance; computed, never saved.
    """

    buckets: Tensor

    def __init__(self, config: RelativePositionBiasConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.weight = config.initializer.init([config.n_buckets, config.n_heads], device=device)
        self.max_distance = config.max_distance
        self.bidirectional = config.bidirectional
        table = torch.empty(2 * config.max_distance + 1, dtype=torch.int64, device=device)
        self.register_buffer("buckets", table, persistent=False)
        if not table.is_meta:
            self.reset_non_persistent_buffers(table.device)

    def reset_non_persistent_buffers(self, device: torch.device) -> None:
        """Compute the table anew on `device`."""
        n_buckets = self.weight.shape[0]
        buckets = position_buckets(n_buckets, self.max_distance, bidirectional=self.bidirectional)
        self.buckets = buckets.to(device)

    def forward(self, queries: int, keys: int, start: int = 0) -> Tensor:
        """`[1, n_heads, queries, keys]`, in the dtype of the weight: what is added to the scores.

        Queries are at the positions `start`, `start + 1`, ... (for generation with a cache), keys at 0, 1, ...
        """
        device = self.buckets.device
        distance = torch.arange(keys, device=device) - torch.arange(start, start + queries, device=device)[:, None]
        index = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return functional.embedding(self.buckets[index], self.weight).permute(2, 0, 1).unsqueeze(0)

    def custom_content(self, content: Content) -> Content:
        n_buckets, n_heads = content.shape("weight")
        content = content.add("n_heads", n_heads).add("n_buckets", n_buckets)
        return content.add("max_distance", self.max_distance).add("bidirectional", self.bidirectional)
