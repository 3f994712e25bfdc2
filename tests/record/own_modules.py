"""Modules that save more than parameters and buffers, in each of the ways that torch has."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Extra(nn.Module):
    """Plain values and tensors by `get_extra_state`."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2))
        self.seen: dict[Any, Any] = {}
        self.mean = torch.zeros(2)

    def get_extra_state(self) -> Any:
        return {"seen": self.seen, "mean": self.mean, "list": [self.mean * 2, (1, 2.5, None)]}

    def set_extra_state(self, state: Any) -> None:
        self.seen, self.mean = state["seen"], state["mean"]


class ExtraTensor(nn.Module):
    """A tensor by `get_extra_state`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.zeros(3, dtype=torch.int32)

    def get_extra_state(self) -> Tensor:
        return self.seen

    def set_extra_state(self, state: Tensor) -> None:
        self.seen = state


class OwnEntries(nn.Module):
    """A number and a tensor more by `_save_to_state_dict`."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.count = 0
        self.table = torch.zeros(2)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "count"] = self.count
        destination[prefix + "table"] = self.table

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        self.count = state_dict.pop(prefix + "count")
        self.table = state_dict.pop(prefix + "table")
        super()._load_from_state_dict(state_dict, prefix, *rest)


class Renamed(nn.Module):
    """Another name for a weight and an entry more by hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.note = ""
        self._register_state_dict_hook(self._save)
        self.register_load_state_dict_pre_hook(self._load)

    def _save(self, module: nn.Module, state_dict: Any, prefix: str, _: Any) -> None:
        state_dict[prefix + "kernel"] = state_dict.pop(prefix + "inner.weight")
        state_dict[prefix + "note"] = self.note

    def _load(self, module: nn.Module, state_dict: Any, prefix: str, *_: Any) -> None:
        state_dict[prefix + "inner.weight"] = state_dict.pop(prefix + "kernel")
        self.note = state_dict.pop(prefix + "note")


class Transposed(nn.Module):
    """A weight that is saved in another form."""

    def __init__(self, rows: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, 2))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = self.weight.t() if keep_vars else self.weight.detach().t()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        state_dict[prefix + "weight"] = state_dict[prefix + "weight"].t()
        super()._load_from_state_dict(state_dict, prefix, *rest)


class Counted(nn.Module):
    """A number more by overrides of the outermost methods, which know no arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.count = 0

    def state_dict(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return {**super().state_dict(), "count": self.count}

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        state_dict = dict(state_dict)
        self.count = state_dict.pop("count")
        super().load_state_dict(state_dict, strict)


class Growing(nn.Module):
    """A buffer whose shape is that of what is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(0))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        self.rows.resize_(state_dict[prefix + "rows"].shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class Frozen(nn.Module):
    """A frozen weight that is not saved, and not missed, as adapters' bases are not."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Parameter(torch.ones(2), requires_grad=False)
        self.adapter = nn.Parameter(torch.randn(2))
        self.register_state_dict_post_hook(self._leave_out)
        self.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())

    @staticmethod
    def _leave_out(module: nn.Module, state_dict: Any, prefix: str, _: Any) -> None:
        del state_dict[prefix + "base"]


def quantized(dtype: torch.dtype = torch.qint8) -> Any:
    """Layers whose weights are objects of C++."""
    return torch.ao.quantization.quantize_dynamic(
        nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)), {nn.Linear}, dtype=dtype
    )


def filled(module: nn.Module) -> Any:
    """The module with states that a fresh one doesn't have."""
    for part in module.modules():
        if isinstance(part, Extra):
            part.seen, part.mean = {"a": 1, 2: [None, 0.5]}, torch.tensor([1 / 3, 4.0])
        if isinstance(part, ExtraTensor):
            part.seen = torch.tensor([5, 6, 7], dtype=torch.int32)
        if isinstance(part, OwnEntries):
            part.count, part.table = 7, torch.tensor([1 / 3, 2.0])
        if isinstance(part, Counted):
            part.count = 9
        if isinstance(part, Renamed):
            part.note = "written"
        if isinstance(part, Growing):
            part.rows = torch.arange(4.0)
    return module


MODULES: dict[str, Callable[[], Any]] = {
    "extra state": lambda: nn.Sequential(nn.Linear(2, 2), Extra()),
    "extra state of the root": Extra,
    "a tensor as extra state": lambda: nn.Sequential(ExtraTensor(), nn.Linear(2, 2)),
    "entries": lambda: nn.Sequential(OwnEntries(), nn.BatchNorm1d(2)),
    "hooks": lambda: nn.Sequential(nn.Linear(2, 2), Renamed()),
    "overrides of the outermost methods": Counted,
    "another form": lambda: nn.Sequential(Transposed()),
    "another shape": lambda: nn.Sequential(Growing()),
    "left out": lambda: nn.Sequential(Frozen()),
    "quantized": quantized,
    "quantized to float16": lambda: quantized(torch.float16),
}


def is_same(one: Any, other: Any) -> bool:
    """Whether two state dicts, or parts of them, are equal, types included."""
    if isinstance(one, Tensor):
        if one.is_quantized:
            return one.qscheme() == other.qscheme() and torch.equal(one.dequantize(), other.dequantize())
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and one == other
