"""Builds a module from a config and a record, without running an initializer."""

import os
import sys
import traceback
from itertools import compress
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from .._torch_compat.dispatch import TorchDispatchMode, schema_of
from .._torch_compat.pytree import tree_flatten, tree_map
from ..backend.torch_backend import find_device
from ..errors import ArgumentError, BurnlikeError, RecordError
from ..module import params
from .loading.load_into import RESET, all_tensors, compute_unsaved, load_own, registered, replace_tensors, unset_tensors
from .nesting import RecordPart
from .record import Record
from .shortcuts import open_for

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
        options: of `burnlike.record.load`, whose errors these are too.

    Returns:
        The module, with every tensor set and the ids of the record.

    Raises:
        RecordError: a tensor is left that nothing sets, or the module can't be built without values.
        ArgumentError: `config` makes no module.
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
    tensors = (*module.parameters(), *module.buffers())
    return module if all(tensor.device == target for tensor in tensors) else module.to(target)


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
        # Torch has no class for what the meta device can't do; only its words tell it from an error of the constructor.
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
    """Take what does not depend on random numbers from a second module; why other tensors have no values."""
    mode = _WithoutRandomNumbers()
    try:
        with torch.device("cpu"), torch.no_grad(), mode:
            built = _build(config, "cpu")
    except Exception as error:  # whatever a constructor raises where there are no random numbers
        return f" and building it once more for them failed ({error})"
    computed = {path: it for path, it in all_tensors(built) if not it.is_meta and not mode.is_unknown(it)}

    def value(path: str, tensor: Tensor) -> Tensor:
        value = computed.get(path)
        if not tensor.is_meta or value is None or (value.shape, value.dtype) != (tensor.shape, tensor.dtype):
            return tensor
        return value.detach().to(device)

    replace_tensors(module, value)
    return " and they depend on random numbers, or are in a container that can't be filled"


class _WithoutRandomNumbers(TorchDispatchMode):
    """Leaves out what draws random numbers or computes with them, and knows which memory is without values so."""

    def __init__(self) -> None:
        super().__init__()
        self._unknown: set[StorageWeakRef] = set()

    def is_unknown(self, tensor: Tensor) -> bool:
        return type(tensor) in (Tensor, nn.Parameter) and StorageWeakRef(tensor.untyped_storage()) in self._unknown

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        if torch.Tag.nondeterministic_seeded not in func.tags and not any(map(self.is_unknown, tensors)):
            return func(*args, **kwargs)
        if func.is_view or torch.Tag.inplace_view in func.tags:  # of the same memory
            return func(*args, **kwargs)
        if torch.Tag.data_dependent_output in func.tags:
            callers = (frame.f_globals.get("__name__") for frame, _ in traceback.walk_stack(sys._getframe()))
            if tensors[0].dtype == torch.bool and torch.nn.init.__name__ in callers:
                return False  # to "draw again?"
            raise RuntimeError(f"its constructor looks at random numbers, by {func}")
        schema = schema_of(func)
        if schema.is_mutable:
            is_written = [it.alias_info is not None and it.alias_info.is_write for it in schema.arguments]
            places = compress(enumerate(argument.name for argument in schema.arguments), is_written)
            changed = [args[at] if at < len(args) else kwargs.get(name) for at, name in places]
            tree_map(self._note, changed)
            return changed[0] if len(schema.returns) == 1 else tuple(changed) if schema.returns else None

        def without_values(like: Any) -> Any:
            if not isinstance(like, Tensor):
                return like
            tensor = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device="cpu")
            self._note(tensor)
            return tensor

        return tree_map(without_values, _meta_result(func, args, kwargs))

    def _note(self, tensor: Any) -> None:
        if isinstance(tensor, Tensor) and not tensor.is_meta:
            self._unknown.add(StorageWeakRef(tensor.untyped_storage()))


def _meta_result(func: Any, args: Any, kwargs: Any) -> Any:
    def moved(leaf: Any) -> Any:
        if isinstance(leaf, torch.Generator):
            return None
        return leaf.to("meta") if isinstance(leaf, Tensor) else leaf

    args, kwargs = tree_map(moved, (args, kwargs))
    if any(argument.name == "device" for argument in schema_of(func).arguments):
        kwargs["device"] = torch.device("meta")
    return func(*args, **kwargs)
