"""Parameters after some steps of an optimizer: the sections `optimizers` and `optimizers_derived`."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from burnlike import nn as layers
from burnlike.module import params
from burnlike.optim import GradientsParams, OptimizerAdaptor
from tests.burn_configs import optimizer_config

from ..compare import Tolerance
from ..problems import UnknownError
from .entries import check_keys, check_near, check_that, tolerance_of

_STEPS = {"id", "optimizer", "config", "learning_rate"}
_OF_MODEL = _STEPS | {"model", "initial", "num_steps", "expected"}
_OF_TENSOR = _STEPS | {"initial_param", "grads_per_step", "expected_param_after_each_step"}
_MODEL = {
    "type": "linear",
    "forward": "y = x @ weight + bias",
    "weight_layout": "[d_input, d_output] (rows = inputs)",
    "loss": "sum of all outputs (backward() seeds ones of the output shape, so d_weight = x^T @ ones, d_bias = n_rows)",
}
_RULE = re.compile(r"step i \(1\.\.=(\d+)\): x = full\(\[([\d, ]+)\], float32\(i\) \* float32\(([\d.e-]+)\)\)")


def check_optimizer(entry: Mapping[str, Any], device: torch.device, dtype: torch.dtype = torch.float32) -> None:
    """Train a Linear, or one tensor with given gradients.

    Raises:
        Failure: the parameters are not the expected ones.
        UnknownError: the entry has something that is not known.
    """
    if "initial_param" in entry:
        _check_tensor(entry, device, dtype)
    else:
        _check_model(entry, device, dtype)


def _check_model(entry: Mapping[str, Any], device: torch.device, dtype: torch.dtype) -> None:
    optional = {"inputs_per_step", "inputs_rule", "tolerance", "tight_layout", "tight_usable"}
    check_keys(entry, _OF_MODEL, optional)
    if entry["model"] != _MODEL:
        raise UnknownError(f"the model {entry['model']!r}")
    inputs = [it.to(dtype) for it in _inputs(entry, device)]
    if len(inputs) != entry["num_steps"]:
        raise UnknownError(f"num_steps {entry['num_steps']} with {len(inputs)} inputs")
    _train_linear(entry, inputs, tolerance_of(entry.get("tolerance")), transposed=False)
    if tight := entry.get("tight_layout"):
        if "TRANSPOSED" not in tight.get("use", ""):
            raise UnknownError(f"the tight_layout {tight!r}")
        _train_linear(entry, inputs, Tolerance(0, tight["tolerance_absolute"]), transposed=True)


def _train_linear(entry: Mapping[str, Any], inputs: list[Tensor], tolerance: Tolerance, *, transposed: bool) -> None:
    """Train with the gradients of the sum of all outputs, that of the weight transposed where the entry says so."""
    initial = {name: torch.tensor(values).to(inputs[0]) for name, values in entry["initial"].items()}
    d_input, d_output = initial["weight"].shape
    model = layers.LinearConfig(d_input=d_input, d_output=d_output, bias="bias" in initial).init().to(inputs[0])
    model.load_state_dict(initial)
    optimizer = _optimizer(entry)
    for x in inputs:
        model(x).sum().backward()
        if transposed:
            model.weight.grad = None if model.weight.grad is None else model.weight.grad.T.contiguous()
        optimizer.step(entry["learning_rate"], model, GradientsParams.from_module(model))
    check_that(
        entry["expected"].keys() == initial.keys(), f"expected {sorted(entry['expected'])}, got {sorted(initial)}"
    )
    for param in params(model):
        check_near(param.tensor, entry["expected"][param.path], tolerance, param.path)


def _inputs(entry: Mapping[str, Any], device: torch.device) -> list[Tensor]:
    if "inputs_per_step" in entry:
        return [torch.tensor(values, device=device) for values in entry["inputs_per_step"]]
    found = _RULE.fullmatch(entry.get("inputs_rule", ""))
    if found is None:
        raise UnknownError(f"the inputs_rule {entry.get('inputs_rule')!r}")
    shape = [int(size) for size in found[2].split(",")]
    step = torch.tensor(float(found[3]), device=device)
    return [step.mul(i).expand(shape) for i in range(1, int(found[1]) + 1)]


def _check_tensor(entry: Mapping[str, Any], device: torch.device, dtype: torch.dtype) -> None:
    check_keys(entry, _OF_TENSOR, {"expected_final_velocity", "tolerance"})
    tensor = nn.Parameter(torch.tensor(entry["initial_param"], dtype=dtype, device=device))
    model = nn.ParameterDict({"tensor": tensor})
    optimizer, tolerance = _optimizer(entry), tolerance_of(entry.get("tolerance"))
    for index, (grad, expected) in enumerate(
        zip(entry["grads_per_step"], entry["expected_param_after_each_step"], strict=True)
    ):
        tensor.grad = torch.tensor(grad, dtype=dtype, device=device)
        optimizer.step(entry["learning_rate"], model, GradientsParams.from_module(model))
        check_near(tensor, expected, tolerance, f"the parameter after step {index}")
    if "expected_final_velocity" in entry:
        states = optimizer.to_record().tensors
        found = {name: it for name, it in states.items() if name.endswith(".velocity")}
        expected = entry["expected_final_velocity"]
        check_that((expected is None) == (not found), f"expected the velocity {expected}, got {found}")
        for velocity in found.values():
            check_near(velocity, expected, tolerance, "the velocity")


def _optimizer(entry: Mapping[str, Any]) -> OptimizerAdaptor:
    optimizer = optimizer_config(entry["optimizer"], entry["config"]).init()
    if not isinstance(optimizer, OptimizerAdaptor):
        raise UnknownError(f"an optimizer {entry['optimizer']!r} in this section")
    return optimizer
