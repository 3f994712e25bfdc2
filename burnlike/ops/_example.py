"""A small call of an op that has a derivative, by which `burnlike doctor` proves that its kernels run."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

_SIZES: dict[str, tuple[int, ...]] = {
    "rows": (2, 4),
    "row": (4,),
    "queries": (1, 2, 3, 4),
    "keys": (1, 1, 3, 4),
    "heads": (1, 2, 3, 4),
    "classes": (2,),
}
_DTYPES = {"heads": torch.bfloat16, "classes": torch.int64}


class Example:
    """A call of an op: a function of tensors whose result requires a gradient, and the words for its tensors.

    An op has it in its file as `EXAMPLE`.
    """

    def __init__(self, call: Callable[..., Tensor], *words: str) -> None:
        self.call, self.words = call, words

    def inputs(self, device: torch.device | str) -> list[Tensor]:
        """The tensors on a device: ones that require gradients; class 0 in each row."""
        return [self._input(word, device) for word in self.words]

    def _input(self, word: str, device: torch.device | str) -> Tensor:
        dtype = _DTYPES.get(word, torch.float32)
        if dtype == torch.int64:
            return torch.zeros(_SIZES[word], dtype=dtype, device=device)
        return torch.ones(_SIZES[word], dtype=dtype, device=device, requires_grad=True)


@cache
def examples() -> Mapping[str, Example]:
    """The examples of all ops by name."""
    package = importlib.import_module(__package__ or "")
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules: dict[str, Any] = {name: importlib.import_module(f"{__package__}.{name}") for name in names}
    return {name: module.EXAMPLE for name, module in modules.items() if hasattr(module, "EXAMPLE")}
