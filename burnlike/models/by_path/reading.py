"""Reads the weights of a directory into a model of transformers, and says what of them was read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from ..._env import in_one_thread
from ...errors import ConfigError
from ...module.torch_objects.deferred import current
from ...record import Record
from ...record.files.stored_tensors import dtype_in, shape_in
from ..pretrained_description import DTYPES

_SHOWN = 5
Part = tuple[bool, str]
"""Whether it is a part of the model below the head, and the name of the module in it."""


def dtype_of(wanted: str | None, values: Mapping[str, Any], record: Record | None) -> torch.dtype:
    """The type of a model's parameters: what is wanted, or what `config.json` says, or that of most weights."""
    dtype_name = values.get("dtype") or values.get("torch_dtype")
    for name in (wanted, dtype_name):
        if isinstance(name, str) and name in DTYPES:
            return DTYPES[name]
    sizes = Counter[torch.dtype]()
    tensors = {} if record is None else record.tensors
    for name in tensors:
        if (dtype := dtype_in(tensors, name)) in DTYPES.values():
            sizes[dtype] += shape_in(tensors, name).numel()
    return max(sizes, key=sizes.__getitem__, default=torch.float32)


def read_model(
    model_class: Any, description: Any, record: Record, values: Mapping[str, Any], *, strict: bool, **options: Any
) -> Any:
    """A model of transformers with the weights of a record; its `burnlike_origin` says what was read and what drawn, of
    which `_burnlike_drawn` has the names.

    Raises:
        ConfigError: the weights are not those of the model; with `strict` also if some are missing below its head, or
            are left there.
    """
    tensors = {name: record.tensors[name] for name in record.tensors}
    tensors |= {alias: tensors[name] for alias, name in record.aliases.items() if name in tensors}
    with in_one_thread() if current.get() is not None else nullcontext():  # what is deferred is of one thread
        options |= {"state_dict": tensors, "ignore_mismatched_sizes": True, "output_loading_info": True}
        model, info = model_class.from_pretrained(None, config=description, **options)
    missing, unexpected = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    mismatched = {name: (list(theirs), list(ours)) for name, theirs, ours in sorted(info["mismatched_keys"])}
    saved = model.state_dict().keys()
    names = [name for part in (model.named_parameters(), model.named_buffers()) for name, _ in part if name in saved]
    read = [name for name in names if name not in {*missing, *mismatched}]
    is_same = (values.get("architectures") or [None])[0] == model_class.__name__
    parts = {_part(model, name) for name in read}
    if not any(below for below, _ in parts):
        raise ConfigError(
            f"{record.source}: has nothing of a {model_class.__name__}, but {_listed(unexpected)}; the weights are of"
            " another model"
        )
    wrong = [
        *(f"no {it}" for it in missing if is_same or _part(model, it) in parts),
        *(f"'{it}', which the model does not have" for it in unexpected if (True, _part(model, it)[1]) in parts),
        *(
            f"'{it}' of {theirs} where the model has {ours}"
            for it, (theirs, ours) in mismatched.items()
            if not _is_of_classes(theirs, ours, description.num_labels)
        ),
    ]
    if wrong and strict:
        raise ConfigError(
            f"{record.source}: the weights are not those of the {model_class.__name__} that config.json describes:"
            f" {_listed(wrong)}; with `strict: false` they are drawn, or left out"
        )
    drawn, left = sorted({*missing, *mismatched}), Counter(_part(model, it)[1] for it in unexpected)
    vars(model)["_burnlike_drawn"] = tuple(drawn)
    text = f"weights   {len(read)} of {len(names)} tensors of {record.source}"
    text += f"; drawn: {_listed(drawn)}" if drawn else ""
    model.burnlike_origin = (
        text + (f"; left out: {_listed([f'{it} ({count})' for it, count in left.items()])}" if left else ""),
    )
    return model


def _part(model: Any, name: str) -> Part:
    prefix = model.base_model_prefix
    has_head = bool(prefix) and isinstance(getattr(model, prefix, None), torch.nn.Module)
    first, _, rest = name.partition(".")
    if has_head and first == prefix:
        return True, rest.partition(".")[0]
    return not has_head, first


def _is_of_classes(theirs: Sequence[int], ours: Sequence[int], count: int) -> bool:
    """True if two shapes are heads for different numbers of classes."""
    pairs = list(zip(theirs, ours, strict=False))
    return len(theirs) == len(ours) and all(one == other or other == count for one, other in pairs)


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) + more) or "nothing"
