"""Records loaded into modules, and what these compute."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from burnlike import nn as layers
from burnlike.module import Module, display, num_params, params
from burnlike.record import Record
from tests.burn_configs import module_config

from .contents import params_of
from .files import RecordFile
from .folder import Golden
from .numbers import check_close, check_same, dtype_of, stored_form, tensor_of
from .outcomes import CheckError, expect

Case = tuple[str, Callable[[], object]]


class Net(Module):
    """Layers one after another, as fields; what enters a Linear is flattened to its width."""

    def __init__(self, fields: list[tuple[str, nn.Module]]) -> None:
        super().__init__()
        for name, layer in fields:
            setattr(self, name, layer)

    def forward(self, x: Tensor) -> Tensor:
        """All layers in their order."""
        for layer in self.children():
            if isinstance(layer, layers.Linear) and x.shape[-1] != layer.weight.shape[0]:
                x = x.flatten(1)
            x = layer(x)
        return x


def types_of(config: Mapping[str, Any]) -> list[str]:
    """The types of layers that a config names."""
    if isinstance(config.get("fields"), list):
        return [name for _, below in config["fields"] for name in types_of(below)]
    return [str(config.get("type"))]


def built(config: Mapping[str, Any]) -> nn.Module:
    """The module of a config.

    Raises:
        CheckError: its type is unknown.
    """
    if isinstance(config.get("fields"), list):
        named = type(str(config.get("type", "Net")), (Net,), {})  # the display says the model's name
        return named([(name, built(below)) for name, below in config["fields"]])
    fields = {name: value for name, value in config.items() if name not in ("type", "initializer")}
    return module_config(str(config.get("type")), fields).init()


def module_cases(golden: Golden, files: list[RecordFile]) -> Iterator[Case]:
    """The cases of a model that has a config."""
    values, config = golden.values, golden.values["config"]
    if "num_params" in values:
        yield "number of parameters", lambda: _check_num_params(built(config), values)
    if "display" in values and not golden.is_burn_0_21:
        yield "display", lambda: _check_display(built(config), values)
    for file in files:
        yield f"module filled from {file.name}", lambda file=file: _check_filled(built(config), file)
        yield f"{file.name} written from the module", lambda file=file: _check_saved(built(config), file)
        if file.precision != "half" and "inputs" in values:
            yield f"outputs with {file.name}", lambda file=file: check_outputs(built(config), file)


def _check_num_params(module: nn.Module, values: Mapping[str, Any]) -> None:
    expect(num_params(module) == values["num_params"], f"{num_params(module)}, expected {values['num_params']}")


def _check_display(module: nn.Module, values: Mapping[str, Any]) -> None:
    expect(display(module) == values["display"], f"{display(module)!r}, expected {values['display']!r}")


def _fill(module: nn.Module, file: RecordFile) -> None:
    """Load the record; into the types that it has, where Burn saved the module as it was."""
    file.record.load_into(module, dtype="as_saved" if file.precision == "as it is" else "module")


def _check_filled(module: nn.Module, file: RecordFile) -> None:
    _fill(module, file)
    found = {param.path: param for param in params(module)}
    entries = params_of(file)
    expect(found.keys() == {entry["path"] for entry in entries}, f"the module has {sorted(found)}")
    for entry in entries:
        param = found[entry["path"]]
        expected = stored_form(tensor_of(entry), file.precision)
        check_same(param.tensor.detach(), expected.to(param.tensor.dtype), entry["path"])
        if file.recorder_text != "SafetensorsStore":
            expect(str(param.id) == entry["id"], f"'{param.path}' has the id {param.id}, expected {entry['id']}")


def _check_saved(module: nn.Module, file: RecordFile) -> None:
    _fill(module, file)
    if file.recorder_text == "SafetensorsStore":  # burn-store writes metadata of its own, and no ids
        found = Record.from_module(module)
        for name, tensor in file.record.tensors.items():
            check_same(found.tensors[name].contiguous(), tensor, name)
        return
    file.check_rewritten(Record.from_module(module), file.stored_precision())


def check_outputs(module: nn.Module, file: RecordFile) -> None:
    """Check outputs, and gradients of the sum over all outputs of sum(flat(output) * c).

    Raises:
        CheckError: they differ.
    """
    values = file.golden.values
    _fill(module, file)
    entries = {name: _input(entry) for name, entry in values["inputs"].items() if isinstance(entry, Mapping)}
    takes = inspect.signature(module.forward).parameters
    named = {name: it for name, it in entries.items() if name != "input" and name in takes}
    outputs = _named_outputs(module(*(it for name, it in entries.items() if name not in named), **named))
    after = {
        name: getattr(module, name.removesuffix("_after")) for name in values["outputs"] if name.endswith("_after")
    }
    found = {**outputs, **after}
    expect(found.keys() == values["outputs"].keys(), f"outputs {sorted(found)}, expected {sorted(values['outputs'])}")
    for name, entry in values["outputs"].items():
        check_close(found[name], tensor_of(entry), name)
    grads = [entry for entry in values.get("grads", []) if entry.get("values") is not None]
    # Burn 0.21 goes back through a GELU as if it were its approximation by tanh.
    if not grads or (file.golden.is_burn_0_21 and any(isinstance(it, layers.Gelu) for it in module.modules())):
        return
    sum((_weighted(output) for output in outputs.values()), torch.zeros(())).backward()
    by_path = {param.path: param for param in params(module)}
    for entry in grads:
        expect(entry["path"] in by_path, f"the module has no '{entry['path']}', which has a gradient")
        grad = by_path[entry["path"]].tensor.grad
        if grad is None:
            raise CheckError(f"'{entry['path']}' has no gradient")
        check_close(grad, tensor_of(entry), f"the gradient of {entry['path']}")


def _input(entry: Mapping[str, Any]) -> Tensor:
    tensor = tensor_of(entry)
    return tensor if tensor.is_floating_point() or dtype_of(entry["dtype"]) == torch.bool else tensor.long()


def _named_outputs(found: Any) -> dict[str, Tensor]:
    """Each tensor of an output by its name: those of named tuples, `output`, and `state` for a state of one tensor."""
    if isinstance(found, Tensor):
        return {"output": found}
    if hasattr(found, "_fields"):
        return found._asdict()
    output, state = found
    parts = {"state": state} if isinstance(state, Tensor) else state._asdict()
    return {"output": output, **(parts if len(parts) > 1 else {"state": next(iter(parts.values()))})}


def _weighted(output: Tensor) -> Tensor:
    flat = output.flatten()
    return (flat * torch.tensor([((i % 7) - 3) / 4 + 0.125 for i in range(flat.numel())])).sum()


def check_loaded_tree(file: RecordFile) -> None:
    """Check that the record fills a plain module of its paths: names, shapes, values and ids.

    Raises:
        CheckError: something differs.
    """
    names = list(file.record.tensors)
    if any(other.startswith(f"{name}.") for name in names for other in names):
        return  # those of a reparameterized model (`weight` and `weight.lora.a`): no plain module has such paths
    tree = _tree_of(file.record)
    report = file.record.load_into(tree)
    expect(sorted(report.applied) == sorted(names), f"applied are {report.applied}")
    ids = {param.path: param.id for param in params(tree)}
    for name, tensor in tree.state_dict().items():
        check_same(tensor, file.record.tensors[name], name)
        if name in file.record.ids:
            expect(ids[name] == file.record.ids[name], f"'{name}' has the id {ids[name]}")


def _tree_of(record: Record) -> nn.Module:
    """Plain modules with zeros at the record's paths, put in behind torch's checks: a part may be called `forward`."""
    tree = nn.Module()
    for name, tensor in record.tensors.items():
        *above, last = name.split(".")
        place = tree
        for part in above:
            below = place._modules.get(part)
            if below is None:
                below = place._modules[part] = nn.Module()
            place = below
        zeros = torch.zeros_like(tensor)
        if tensor.is_floating_point():
            place._parameters[last] = nn.Parameter(zeros)
        else:
            place._buffers[last] = zeros
    return tree
