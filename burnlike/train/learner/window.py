"""The losses between two lines of metrics."""

import time
from collections.abc import Mapping

import torch
from torch import Tensor


class LossWindow:
    """Collects losses without waiting for the device that they are on, until their mean is asked for."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._device = device
        self._means: list[Tensor] = []
        self._sizes: list[int] = []
        self.restart_clock()

    def restart_clock(self) -> None:
        """Measure the rate from now on: what was done before this moment was not training."""
        self._started_at = time.perf_counter()
        self._timed_size = 0

    def add(self, loss: Tensor, size: int) -> None:
        # That of nothing is NaN, and has no weight.
        self._means.append(loss.detach() if size else torch.zeros_like(loss))
        self._sizes.append(size)
        self._timed_size += size

    def sums(self) -> tuple[float, int]:
        """The sum of all values that were added, and their number."""
        if not self._means:
            return 0.0, 0
        sizes = torch.tensor(self._sizes, dtype=torch.float64)
        means = torch.stack(self._means).double().cpu()
        return (means * sizes).sum().item(), sum(self._sizes)

    def close(self) -> tuple[float, int, float]:
        """The sums, and the values per second; the window is empty afterwards."""
        total, size = self.sums()
        rate = self._timed_size / (time.perf_counter() - self._started_at)
        self._means, self._sizes = [], []
        self.restart_clock()
        return total, size, rate

    def clear(self) -> None:
        self._means, self._sizes = [], []

    def state_dict(self) -> dict[str, Tensor]:
        means = torch.stack(self._means).double().cpu() if self._means else torch.zeros(0, dtype=torch.float64)
        return {"means": means, "sizes": torch.tensor(self._sizes, dtype=torch.int64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        means, sizes = state["means"], state["sizes"].tolist()
        self._means = list(means.to(self._device).unbind())
        self._sizes = sizes
