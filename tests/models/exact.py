"""transformers' models in float64 throughout: they compute norms, rotations and routing in float32 by themselves."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.nn import RotaryEncoding


class _Torch:
    """torch as transformers' modules see it."""

    float32 = float = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@contextmanager
def in_float64() -> Iterator[None]:
    """Within it, what the loaded models of transformers call float32 is float64, and so is what `.float()` makes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in [*sys.modules.items()]:
            is_model = name.startswith("transformers.models.") and ".modeling_" in name
            if (is_model or name == "transformers.modeling_rope_utils") and vars(module).get("torch") is torch:
                patch.setattr(module, "torch", _Torch())
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield


def with_tables_in_float64(model: nn.Module) -> nn.Module:
    """The model with its rotations computed again within `in_float64`; outside they are float32."""
    for module in model.modules():
        if isinstance(module, RotaryEncoding):
            module.reset_non_persistent_buffers(torch.device("cpu"))
    return model
