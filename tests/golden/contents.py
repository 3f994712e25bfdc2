"""What the records of files must hold, by their values files."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from burnlike.module import ParamId
from burnlike.record import Record

from .files import RecordFile, leaves_of
from .folder import Golden
from .numbers import FLOATS, check_same, stored_form, tensor_of
from .outcomes import expect


def check_module(file: RecordFile) -> None:
    """Check paths, ids, types, shapes and every value.

    Raises:
        CheckError: something differs.
    """
    record, params = file.record, params_of(file)
    names = {**{name: name for name in record.tensors}, **record.aliases}
    expected = {entry["path"] for entry in params}
    expect(names.keys() == expected, f"it holds {sorted(names)}, expected {sorted(expected)}")
    has_ids = file.recorder_text != "SafetensorsStore"
    transposed = transposed_paths(file.golden.values.get("config"))
    for entry in params:
        path = entry["path"]
        name = names[path]
        if has_ids or name in record.ids:
            _check_id(record.ids.get(name), entry)
        value = stored_form(tensor_of(entry), file.precision)
        _check_kind(record.tensors[name], entry)
        if file.is_end and path.rpartition(".")[2] in ("running_mean", "running_var"):
            continue  # Burn's `params_after` has those of the update before
        check_same(record.tensors[name], value.mT.contiguous() if path in transposed else value, path)


def params_of(file: RecordFile) -> list[dict[str, Any]]:
    """The parameters that the file holds."""
    return file.golden.values["params_after" if file.is_end else "params"]


def transposed_paths(config: Any, prefix: str = "") -> set[str]:
    """The paths of weights that records hold transposed: those of Linear in the layout Col."""
    if not isinstance(config, Mapping):
        return set()
    if isinstance(config.get("fields"), list):
        return {path for name, below in config["fields"] for path in transposed_paths(below, f"{prefix}{name}.")}
    is_col = config.get("type") == "Linear" and config.get("layout") == "Col"
    return {f"{prefix}weight"} if is_col else set()


def _check_id(found: ParamId | None, entry: Mapping[str, Any]) -> None:
    text = None if found is None else str(found)
    expect(text == entry["id"], f"'{entry['path']}' has the id {text}, expected {entry['id']}")
    expect(int(found or 0) == int(entry["id_u64"]), f"'{entry['path']}' has the id {int(found or 0)}")


def _check_kind(tensor: Tensor, entry: Mapping[str, Any]) -> None:
    kind = "bool" if tensor.dtype == torch.bool else "float" if tensor.is_floating_point() else "int"
    expect(kind == entry["kind"], f"'{entry['path']}' is of the kind {kind}, expected {entry['kind']}")


def check_optimizer(file: RecordFile) -> None:
    """Check ids, paths, the types of the states' tensors and the steps that they count; their values by stepping on.

    Raises:
        CheckError: something differs.
    """
    record, values = file.record, file.golden.values
    if is_lbfgs(file.golden):
        expect(not record.ids and record.tensors.keys() >= {"d"}, f"it holds {sorted(record.tensors)}")
        return
    trained = _trained(file.golden)
    states = record.values.get("states")
    expect(isinstance(states, Mapping), "it is no optimizer's record")
    ids = {name.partition(".")[0] for name in (*record.tensors, *(states or {}), *_layout_ids(record))}
    expected = {entry["id"]: entry["path"] for entry in values["params"] if entry["path"] in trained}
    expect(ids == expected.keys(), f"it has the ids {sorted(ids)}, expected {sorted(expected)}")
    paths = record.values.get("paths", {})
    expect(not paths or paths == expected, f"it has the paths {paths}, expected {expected}")
    expect(bool(paths) != file.golden.is_burn_0_21, f"it has the paths {paths}")
    dtype = FLOATS.get(file.precision)
    shapes = {entry["id"]: entry["shape"] for entry in values["params"]}
    for name, tensor in record.tensors.items():
        # States have their own types in files of Burn 0.22: float32 for half parameters, or theirs.
        right = tensor.is_floating_point() if dtype is None else tensor.dtype == dtype
        expect(right, f"'{name}' is {tensor.dtype}, expected {dtype or 'a float'}")
        rank = len(shapes[name.partition(".")[0]])
        expect(tensor.ndim == rank, f"'{name}' has the shape {list(tensor.shape)}, expected rank {rank}")
        expect(bool(tensor.isfinite().all()), f"'{name}' has values that are no number")
    steps = len(values.get("steps_before_save") or values.get("steps") or ())
    for name, value in (states or {}).items():
        if name.endswith(".time"):
            expect(value == steps, f"'{name}' is {value}, expected {steps} steps")


def is_lbfgs(golden: Golden) -> bool:
    """Whether the optimizer is LBFGS: it has one state for all parameters, and no ids."""
    config = golden.values.get("config")
    return isinstance(config, Mapping) and str(config.get("type")).lower() == "lbfgs"


def _trained(golden: Golden) -> set[str]:
    """The paths of the parameters that had gradients."""
    steps = golden.values.get("steps_before_save")
    if not steps:
        return {entry["path"] for entry in golden.values["params"] if entry["require_grad"]}
    return {entry["path"] for step in steps for entry in step["grads"] if entry["values"] is not None}


def _layout_ids(record: Record) -> list[str]:
    layout = record.layout() if callable(record.layout) else record.layout
    layout = layout.get("$named", layout) if isinstance(layout, Mapping) else {}
    return [name for name, below in layout.items() if isinstance(below, Mapping) and "$state" in below]


def check_scheduler(file: RecordFile) -> None:
    """Check that it holds numbers alone; which ones, by comparing with a scheduler.

    Raises:
        CheckError: something else is there.
    """
    expect(not file.record.tensors, f"it holds the tensors {sorted(file.record.tensors)}")
    for path, value in leaves_of(file.record):
        expect(type(value) in (int, float), f"'{path}' is {value!r}")
