"""A decoder of transformers as a DecoderLm over the same memory, whose native steps then compute its next tokens."""

import inspect
import json
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import BurnlikeError
from ...interop.fused.forwards import stock_forward
from ...interop.torch_names import TorchLayout
from ...module.torch_objects.wrappers import parametrizations_of
from ...record import Record
from ...record.loading.meta_modules import compute_unsaved, registered
from ..conversion import tensors_for
from ..pretrained_description import described
from .configs import DecoderLmConfig, RotaryPositions
from .native_steps import computes, is_changed


def twin_of(model: Any, length: int) -> Any:
    """A DecoderLm of the parameters of a model of transformers, which are not copied; None where there is none.

    It is for sequences of up to `length` tokens, so that a model for long ones needs no table of all its positions.

    There is one for models on the CPU, in float32 or bfloat16, that a table of weights describes and whose tokens
    `native_steps` computes, if nothing of the model was changed: its classes are those of transformers and torch, with
    their own code or `fuse`'s, without hooks and adapters.
    """
    if not _is_stock(model):
        return None
    try:
        values = json.loads(model.config.to_json_string())
        found = described({**values, "architectures": [type(model).__name__], "dtype": None}, "config.json")
        if not isinstance(found.config, DecoderLmConfig):
            return None
        longest = found.config.max_sequence_length
        if isinstance(found.config.positions, RotaryPositions):
            longest = min(longest, length)
        twin = found.config.replace(max_sequence_length=longest).init("meta").eval()
        tensors = tensors_for(found.table, twin, Record(model.state_dict(), source="the model"))
    except (BurnlikeError, TypeError):
        return None
    places, layout = registered(twin), TorchLayout(twin)
    for path, place in layout.places.items():
        owner, _, name = path.rpartition(".")
        value = place.taken_from(tensors[place.name])
        setattr(twin.get_submodule(owner), name, nn.Parameter(value, requires_grad=False))
    return twin if not compute_unsaved(twin, places, torch.device("cpu")) and computes(twin) else None


def _is_stock(model: nn.Module) -> bool:
    for module in model.modules():
        kind = type(module)
        is_theirs = kind.__module__.split(".")[0] in ("torch", "transformers")
        if not is_theirs or is_changed(module) or parametrizations_of(module):
            return False
        owner, stock = stock_forward(kind)
        if stock is not None and inspect.unwrap(stock).__module__ != owner.__module__:
            return False
    return all(_is_plain(it) for it in (*model.parameters(), *model.buffers()))


def _is_plain(tensor: Tensor) -> bool:
    return type(tensor) in (Tensor, nn.Parameter) and tensor.device.type == "cpu"
