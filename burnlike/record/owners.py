"""Finds how a module, optimizer, scheduler or anything else with a state becomes a record and back.

An object joins by two methods with Burn's names: `into_record()`, and `load_record(record)`, which takes what the first
gave and may have options. The functions here call them; what is said here of other objects is how torch's own join.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from .._lazy import resolve
from ..errors import RecordError
from ..module.identity.torch_wrappers import unwrap
from .derived.foreign import from_foreign, into_foreign, is_foreign
from .derived.module_layout import deferred_layout
from .layout import LayoutOf
from .loading.report import LoadReport
from .record import Record

_OPTIMIZERS = "burnlike.optim.states.torch_records"
"""What knows torch's optimizers; it is above this package."""


def own_record(source: Any) -> Record | None:
    """The record that `source` itself has; None for what is only a part of one, as tensors, maps and dataclasses.

    Raises:
        RecordError: it can't be made; see `Record.from_module`.
    """
    if isinstance(source, Record | type):
        return source if isinstance(source, Record) else None
    inner = unwrap(source) if isinstance(source, nn.Module) else source
    for name in ("into_record", "to_record"):
        if callable(made := getattr(inner, name, None)):
            return Record.of(made())
    if isinstance(source, nn.Module):
        return Record.from_module(source)
    if isinstance(source, torch.optim.Optimizer):
        return resolve(f"{_OPTIMIZERS}:torch_record")(source)
    return from_foreign(source) if is_foreign(source) else None


def load_own(target: Any, source: Any, **options: Any) -> Any:
    """Put a record, or that of another object, into `target`; `options` are those of its `load_record`.

    Returns:
        What its `load_record` gives: a LoadReport for modules.

    Raises:
        RecordError: it has no record of its own; or the record does not fit, see `burnlike.record.load`.
    """
    record = Record.of(source)
    inner = unwrap(target) if isinstance(target, nn.Module) else target
    own = None if isinstance(target, type) else getattr(inner, "load_record", None)
    if callable(own):
        return own(record, **options)
    if isinstance(target, nn.Module):
        return load_module(target, record, **options)
    if isinstance(target, torch.optim.Optimizer):
        module = options.pop("module", None)
        modules = () if module is None else (module,)
        return resolve(f"{_OPTIMIZERS}:load_torch_record")(target, record, *modules, **options)
    if not is_foreign(target):
        raise _not_loadable(target)
    return into_foreign(target, record, **options)


def load_module(module: nn.Module, record: Record, **options: Any) -> LoadReport:
    """Put a record into the tensors of a module, whatever its class says."""
    from .loading.load_into import load_into
    from .loading.load_options import LoadOptions

    return load_into(record, module, LoadOptions.of(options))


def given_options(strict: bool, device: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a load without those that have their default: not everything that loads knows them."""
    return {
        **({} if strict is True else {"strict": strict}),
        **({} if device is None else {"device": device}),
        **options,
    }


def layout_for(target: Any) -> Any:
    """The layout of the records of `target`, for files that carry no names; None where it can't be told."""
    if isinstance(target, nn.Module):
        return deferred_layout(target)
    known = None if isinstance(target, type) else getattr(target, "record_layout", None)
    return LayoutOf(known) if callable(known) else None


def _not_loadable(target: Any) -> RecordError:
    if isinstance(target, type):
        return RecordError(
            f"expected an object to load into, got the class {target.__name__};"
            f" burnlike.record.open_record(path).into({target.__name__}) makes an object of it"
        )
    return RecordError(
        f"expected a module, an optimizer, a scheduler, a TrainingState, a generator, or an object with"
        f" load_record(record) or load_state_dict(state), to load into, got {type(target).__name__}; open the record by"
        " burnlike.record.open_record(path), and load its parts: record.model.load_into(model), record.into(Type)"
    )


def load_undoably(target: Any, record: Record, **options: Any) -> Callable[[], None]:
    """Let `target` load a record by its own method; if that raises, `target` gets its state back.

    Takes memory for a copy of the state.

    Returns:
        What gives `target` the state from before.
    """
    before = Record.of(target)
    tensors = {name: before.tensors[name].detach().clone() for name in before.tensors}
    before = replace(before, tensors=tensors, values=copy.deepcopy(dict(before.values)))
    try:
        load_own(target, record, **options)
    except BaseException:
        load_own(target, before)
        raise
    return lambda: load_own(target, before)
