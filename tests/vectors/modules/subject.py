"""What a record is about: its layer with its parameters, and its inputs."""

import re
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn as torch_nn

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.module import params
from tests.burn_configs import UnknownConfigError, module_config

from ..problems import UnknownError
from .inputs import numbers, tensor_of
from .worlds import World

CONSTRUCTOR = re.compile(r"(\w+)Config::(l1|l2)\(\)")
MODES = {None: False, "eval": False, "train": True}
# What Burn 0.22 does not have any more: the forget gate of an LSTM that forgets by its input gate.
WITHOUT = {"input_forget": "forget_gate."}


@dataclass
class Subject:
    """A record in one world.

    Attributes:
        record: whose keys are known.
        world: where it runs.
        leaves: the inputs that get gradients, by name, once `arguments` has made them.
    """

    record: dict[str, Any]
    world: World
    leaves: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Burn's name of the layer."""
        return self.record["module"]

    @property
    def training(self) -> bool:
        """Whether the layer is in training mode; not where the record doesn't say."""
        if self.record.get("mode") not in MODES:
            raise UnknownError(f"unknown mode {self.record['mode']!r}")
        return MODES[self.record.get("mode")]

    def config(self, fields: Any = None) -> ModuleConfig:
        """The config of the layer, or the one with other fields."""
        found = self.record["config"] if fields is None else fields
        if isinstance(found, str) and (call := CONSTRUCTOR.fullmatch(found)) and call[1] == self.kind:
            return getattr(getattr(nn, f"{self.kind}Config"), call[2])()
        if not isinstance(found, dict):
            raise UnknownError(f"unknown config {found!r}")
        try:
            return module_config(self.kind, found)
        except UnknownConfigError as error:
            raise UnknownError(str(error)) from error

    def layer(self) -> Any:
        """The layer with the record's parameters, in its mode."""
        made = self.config().init(self.world.device).train(self.training)
        self.fill(made)
        return made

    def fill(self, layer: torch_nn.Module) -> None:
        """Put the record's parameters in place; it names all, or none."""
        given: dict[str, Any] = dict(self.record.get("params") or {})
        if not given:
            return
        for option, prefix in WITHOUT.items():
            if self.record["config"].get(option):
                given = {path: it for path, it in given.items() if not path.startswith(prefix)}
        found = {param.path: param for param in params(layer)}
        absent = {path for path, value in given.items() if value is None}
        if found.keys() != given.keys() - absent:
            raise UnknownError(f"the layer has the parameters {sorted(found)}, the record {sorted(given)}")
        for path, param in found.items():
            value = param_of(given[path], list(param.tensor.shape))
            param.assign(value.to(param.tensor))

    def tensors(self) -> dict[str, Any]:
        """The inputs as torch tensors, None for null, by name; a single one in a list is called `input`."""
        given = self.record.get("inputs") or {}
        dtypes = self.record.get("dtypes") or {}
        if isinstance(given, list):
            names = ["input", *(f"input{index}" for index in range(1, len(given)))]
            given = dict(zip(names, given, strict=False))
            dtypes = dict(zip(names, dtypes, strict=False))
        if dtypes.keys() - given.keys():
            raise UnknownError(f"element types of {sorted(dtypes)}, but inputs {sorted(given)}")
        return {name: self.tensor(value, dtypes.get(name)) for name, value in given.items()}

    def tensor(self, value: Any, dtype: Any = None) -> Any:
        """One input: a torch tensor, a state of several, or None."""
        if isinstance(value, dict) and value.keys() == {"cell", "hidden"}:
            return nn.LstmState(*(self.tensor(it, dtype) for it in value.values()))
        found = tensor_of(value, dtype)
        return None if found is None else found.to(self.world.device)

    def arguments(self, *, with_gradients: bool = False) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of the layer's call: in the record's order, but for masks, which go by name."""
        inputs: list[Any] = []
        masks: dict[str, Any] = {}
        for name, it in self.tensors().items():
            if "mask" in name:
                masks[name] = self.wrapped(it)
            elif isinstance(it, torch.Tensor) and it.is_floating_point() and with_gradients:
                self.leaves[name] = self.world.leaf(it)
                inputs.append(self.leaves[name])
            else:
                inputs.append(self.wrapped(it))
        return inputs, masks

    def called(self, layer: Any, *more: Any) -> Any:
        """What `layer` gives for the inputs and `more`."""
        inputs, masks = self.arguments()
        return layer(*inputs, *more, **masks)

    def wrapped(self, value: Any) -> Any:
        """A torch tensor, or each of a state, as this world has it."""
        if value is None:
            return None
        if isinstance(value, torch.Tensor):
            return self.world.given(value)
        return type(value)(*(self.world.given(it) for it in value))


def param_of(value: Any, shape: list[int]) -> torch.Tensor:
    """The value of a parameter: nested lists, or `{"initializer": "Constant 0.5"}`."""
    if isinstance(value, list):
        made = torch.tensor(numbers(value))
    elif isinstance(value, dict) and "initializer" in value and value.keys() <= {"initializer", "shape"}:
        name, _, number = str(value["initializer"]).partition(" ")
        constants = {"Zeros": 0.0, "Ones": 1.0}
        if name not in constants and name != "Constant":
            raise UnknownError(f"unknown initializer {value['initializer']!r}")
        made = torch.full(value.get("shape", shape), constants[name] if name in constants else float(number))
    else:
        raise UnknownError(f"unknown parameter {value!r}")
    if list(made.shape) != shape:
        raise UnknownError(f"a parameter of shape {list(made.shape)} for one of {shape}")
    return made
