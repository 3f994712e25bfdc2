"""The description that `burnlike data` prints: numbers of items and classes, lengths, and items as text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

MASKED, UNMASKED = "\x0e", "\x0f"
"""Around text that a training has no loss on; a terminal shows it grey."""

_COUNTED_ITEMS = 200_000
_SHOWN_NAMES = 20
_SHOWN_NUMBERS = 8
_BARS = " ▁▂▃▄▅▆▇█"
_BINS = 20


def described(data: Any, targets: Sequence[int] | None = None) -> list[str]:
    """Lines about any data set: the items of each part, and how many of them each class has.

    Args:
        targets: all labels of the items to train on, where these have not one class each.
    """
    parts = {"train": data.train, "valid": data.valid, **getattr(data, "splits", {})}
    lines = ["items     " + ", ".join(f"{len(part):,} {name}" for name, part in parts.items())]
    if (size := getattr(data, "vocab_size", None)) is not None:
        lines.append(f"tokens    {size:,} different ones")
    if (names := getattr(data, "classes", None)) is not None:
        lines += class_lines(names, targets_of(data.train) if targets is None else targets)
    return lines


def targets_of(dataset: Any) -> list[int] | None:
    """The classes of items that are pairs with a tensor of one whole number; None where they are none, or too many."""
    if len(dataset) > _COUNTED_ITEMS or (targets := getattr(dataset, "targets", None)) is None:
        return None
    numbers = torch.as_tensor(targets)
    return numbers.tolist() if numbers.dim() == 1 and not numbers.is_floating_point() else None


def class_lines(names: Sequence[str], targets: Sequence[int] | None) -> list[str]:
    """A line for the classes, with how many items of the training each has, where that is known."""
    counts = None if targets is None else Counter(targets)
    shown_names = [f"{name} {counts[number]:,}" if counts else str(name) for number, name in enumerate(names)]
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN_NAMES else ""
    return [f"classes   {', '.join(shown_names[:_SHOWN_NAMES])}{more}"]


def shown(item: Any) -> str:
    """An item on one line: small tensors by their values, others by their shapes."""
    if isinstance(item, Tensor):
        if item.numel() <= _SHOWN_NUMBERS:
            return str(item.tolist())
        low, high = (f"{it:.4g}" for it in (item.min().item(), item.max().item()))
        return f"{str(item.dtype).removeprefix('torch.')}{list(item.shape)} in {low}..{high}"
    if isinstance(item, Mapping):
        return ", ".join(f"{name}: {shown(it)}" for name, it in item.items())
    if isinstance(item, tuple | list) and not all(isinstance(it, int | float | str) for it in item):
        return "; ".join(shown(it) for it in item)
    return repr(item)


def histogram(values: Sequence[float]) -> list[str]:
    """Least, median, 95th percentile and largest of some numbers, and a row of bars between the least and largest."""
    numbers = torch.as_tensor(values).double()
    low, middle, high, top = (float(it) for it in numbers.quantile(torch.tensor([0, 0.5, 0.95, 1]).double()))
    counts = torch.histc(numbers, bins=_BINS, min=low, max=max(top, low + 1)).tolist()
    scale = (len(_BARS) - 1) / max(counts)
    bars = "".join(_BARS[max(round(it * scale), 1) if it else 0] for it in counts)
    return [f"min {low:,.0f}, median {middle:,.0f}, 95 % up to {high:,.0f}, max {top:,.0f}", bars]
