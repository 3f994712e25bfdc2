"""Builds a module from a config and a record, without running an initializer."""

import os
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ArgumentError, BurnlikeError, RecordError
from ...module import params
from ...module.identity.device import find_device
from ..owners import load_own
from ..parts import RecordPart
from ..record import Record
from ..shortcuts import open_for
from .meta_modules import RESET, compute_unsaved, registered
from .rebuilding import computed_tensors
from .unset import replace_tensors, unset_tensors

_SHOWN = 10


def init_from(
    config: Any,
    source: str | os.PathLike[str] | Record | RecordPart,
    device: torch.device | str | None = None,
    **options: Any,
) -> Any:
    """Build a module on the meta device, where nothing is computed, and fill it from a record.

    Tensors that no record holds (non-persistent buffers and plain attributes, such as tables of positions) are computed
    by the module that owns them, if it has a method `reset_non_persistent_buffers(device)`. For the others the module
    is built once more, on the CPU, with all that draws random numbers left out: a constructor that reads a file does so
    twice. Random numbers that are not torch's are not noticed.

    Args:
        config: has `init(device)`, as a ModuleConfig; or a function without arguments that makes the module.
        source: path of a record's file; or a Record, or a part of one.
        device: where the tensors go; None is torch's default device.
        options: of `burnlike.record.load`.

    Returns:
        The module, with every tensor set and the ids of the record.

    Raises:
        RecordIOError, RecordFormatError: the file can't be read.
        RecordMismatchError: the record does not fit the module.
        RecordError: a tensor is left that nothing sets, or the module can't be built without values.
        DeviceError: there is no such device.
        ArgumentError: `config` makes no module, or see `burnlike.record.load`.
    """
    target = find_device(device)
    opening = {key: options.pop(key) for key in ("recorder", "layout", "top_level_key") if key in options}
    module = _on_meta(config)
    is_record = isinstance(source, Record | RecordPart)
    record = Record.of(source) if is_record else open_for(module, source, **opening)
    places = registered(module)
    with target:  # a load_record of the module's own may know no device
        load_own(module, record, **options)
    compute_unsaved(module, places, target)
    reason = _rebuild(config, module, target) if unset_tensors(module) else ""
    if left := [param.path for param in params(module, "weight") if param.tensor.is_meta]:
        raise RecordError(
            f"{record.source} gives no values for {', '.join(left[:_SHOWN])}, and no initializer runs here; build the"
            " module as usual and load what there is into it"
        )
    if unset := unset_tensors(module):
        raise RecordError(
            f"no values for {', '.join(sorted(unset)[:_SHOWN])}: {type(module).__name__} does not save them in a"
            f" record{reason}; give the module that owns them a method {RESET}(device) that computes them"
        )
    return module.to(target)


def _build(config: Any, device: str) -> Any:
    if isinstance(config, nn.Module) or not (hasattr(config, "init") or callable(config)):
        raise ArgumentError(
            f"expected a config with init(device), or a function that makes the module, got {type(config).__name__}"
        )
    init = getattr(config, "init", None)
    return config() if init is None else init(device)


def _on_meta(config: Any) -> nn.Module:
    try:
        with torch.device("meta"):
            module = _build(config, "meta")
    except (RuntimeError, NotImplementedError) as error:
        if isinstance(error, BurnlikeError) or "meta" not in str(error):
            raise
        raise RecordError(
            f"the module can't be built without values: {error}; give device='cpu' to the tensors whose values its"
            " constructor looks at, or build it as usual and load the record into it"
        ) from error
    if not isinstance(module, nn.Module):
        raise RecordError(f"expected the config or function to make an nn.Module, got {type(module).__name__}")
    return module


def _rebuild(config: Any, module: nn.Module, device: torch.device) -> str:
    """Set what is left from a module that is built with values; returns why something may be left."""
    try:
        computed = computed_tensors(lambda: _build(config, "cpu"))
    except Exception as error:  # whatever a constructor raises where there are no random numbers
        return f" and building it once more for them failed ({error})"

    def value(path: str, tensor: Tensor) -> Tensor:
        found = computed.get(path)
        if not tensor.is_meta or found is None or (found.shape, found.dtype) != (tensor.shape, tensor.dtype):
            return tensor
        return found.detach().to(device)

    replace_tensors(module, value)
    return " and they depend on random numbers, or are in a container that can't be filled"
