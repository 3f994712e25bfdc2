"""Building a module from a config and a record, without running an initializer."""

import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ..errors import RecordError
from ..module.device import find_device
from .module_layout import deferred_layout
from .opening import open_record
from .record import Record

_HOOK = "reset_non_persistent_buffers"


def init_from(
    config: Any,
    source: str | os.PathLike[str] | Record,
    device: torch.device | str | None = None,
) -> Any:
    """Build a module on the meta device, where nothing is computed, and fill it from a record.

    Tensors that no record holds (non-persistent buffers, such as tables of positions) are computed by the module that
    owns them: its method `reset_non_persistent_buffers(device)` is called.

    Args:
        config: has `init(device)`, as a ModuleConfig; or a function without arguments that makes the module.
        source: path of a record's file, or a Record.
        device: where the tensors go; None is torch's default device.

    Returns:
        The module, with every tensor set and the ids of the record.

    Raises:
        RecordIOError, RecordFormatError: the file can't be read.
        RecordMismatchError: the record does not fit the module.
        RecordError: a tensor is left that nothing sets.
        DeviceError: there is no such device.
    """
    target = find_device(device)
    with torch.device("meta"):
        module = config.init("meta") if hasattr(config, "init") else config()
    if not isinstance(module, nn.Module):
        raise RecordError(f"expected the config or function to make an nn.Module, got {type(module).__name__}")
    record = source if isinstance(source, Record) else open_record(source, deferred_layout(module))
    record.load_into(module, strict=True, device=target)
    _reset_buffers(module, target)
    unset = sorted(_on_meta(module))
    if unset:
        raise RecordError(
            f"no values for {', '.join(unset[:10])}: {type(module).__name__} does not save them in a record; "
            f"give the module that owns them a method {_HOOK}(device) that computes them"
        )
    return module.to(target)


def _reset_buffers(module: nn.Module, device: torch.device) -> None:
    for part in module.modules():
        reset = getattr(part, _HOOK, None)
        if reset is not None and any(_on_meta(part, recurse=False)):
            with torch.device(device):
                reset(device)


def _on_meta(module: nn.Module, recurse: bool = True) -> Iterator[str]:
    """Paths of all tensors on the meta device: parameters, buffers, and tensors kept as plain attributes."""
    for prefix, part in module.named_modules() if recurse else [("", module)]:
        for group in (part._parameters, part._buffers, part.__dict__):
            for name, value in group.items():
                if isinstance(value, torch.Tensor) and value.is_meta:
                    yield f"{prefix}.{name}" if prefix else name
