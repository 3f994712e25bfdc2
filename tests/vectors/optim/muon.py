"""Muon: the section `muon`."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from burnlike import nn as layers
from burnlike.errors import ConfigError
from burnlike.optim import GradientsParams, Muon, MuonConfig
from burnlike.optim.rules.muon import orthogonalized
from tests.burn_configs import optimizer_config

from ..compare import Tolerance
from ..problems import UnknownError
from .entries import ABOUT, Case, check_keys, check_near, check_that

_RATE = 0.01
_DECAY = re.compile(r"(?:zero gradient, )?weight decay ([\d.]+)")
_FILLED = re.compile(r"ones\((\d+),(\d+)\), x = (\d+)x(\d+) of ([\d.]+), wd ([\d.]+), lr ([\d.]+)")


def muon_cases(section: Mapping[str, Any]) -> list[Case]:
    """The cases of the section."""
    tolerance = Tolerance(0, section.get("adjust_tolerance", 1e-8))
    cases = [
        Case(f"Muon/ratio {index}", lambda _, entry=entry: _check_ratio(entry, tolerance))
        for index, entry in enumerate(section.get("adjust_ratio", []))
    ]
    for index, entry in enumerate(section.get("properties", [])):
        name = f"Muon/{entry.get('name', index)}"
        cases.append(Case(name, lambda device, entry=entry: _check_property(entry, device)))
    for name in sorted(section.keys() - {"adjust_ratio", "adjust_tolerance", "properties"} - ABOUT):
        cases.append(Case(f"Muon/{name}", lambda _, name=name: _unknown(f"the part {name!r} of the section")))
    return cases


def _check_ratio(entry: Mapping[str, Any], tolerance: Tolerance) -> None:
    check_keys(entry, {"fn", "shape", "out"})
    rule = optimizer_config("Muon", {"adjust_lr_fn": entry["fn"]}).build()
    assert isinstance(rule, Muon)
    check_near(rule.ratio(entry["shape"]), entry["out"], tolerance, f"{entry['fn']} of {entry['shape']}")


def _check_property(entry: Mapping[str, Any], device: torch.device) -> None:
    check_keys(entry, {"name", "expect"}, {"input"})
    name = entry["name"]
    known = [found for pattern, found in _PROPERTIES.items() if re.fullmatch(pattern, name)]
    if not known:
        raise UnknownError(f"the property {name!r}")
    check, says = known[0]
    if not re.fullmatch(says, entry["expect"]):
        raise UnknownError(f"the expectation {entry['expect']!r} of {name!r}")
    check(entry, device)


def _refused(entry: Mapping[str, Any], device: torch.device) -> None:
    tensor = nn.Parameter(torch.ones([3] * int(entry["name"].split()[1]), device=device))
    tensor.grad = torch.ones_like(tensor)
    model = nn.ParameterDict({"tensor": tensor})
    message = entry["expect"].removeprefix("panic with message: ")
    try:
        MuonConfig().init().step(_RATE, model, GradientsParams.from_module(model))
    except ConfigError as error:
        check_that(message in str(error), f"expected {message!r}, got {error}")
        return
    check_that(False, "it is accepted")


def _orthogonal(entry: Mapping[str, Any], device: torch.device) -> None:
    config = MuonConfig()
    matrix = torch.tensor(entry["input"], device=device)
    (found,) = orthogonalized([matrix], config.ns_coefficients, config.epsilon, config.ns_steps, matrix.dtype)
    within = float(entry["expect"].split()[-3])
    diagonal = (found @ found.T).diagonal()
    check_that(bool(((diagonal - 1).abs() < within).all()), f"expected {entry['expect']}, got {diagonal.tolist()}")


def _unchanged(entry: Mapping[str, Any], device: torch.device) -> None:
    before = _matrix(device)
    after = _stepped(before, torch.zeros_like(before), 0.0, _RATE)
    check_near(after, before.tolist(), Tolerance(0, float(entry["expect"].split()[-1])), "the parameter")


def _decayed(entry: Mapping[str, Any], device: torch.device) -> None:
    said = _DECAY.search(entry["name"])
    before = _matrix(device)
    after = _stepped(before, torch.zeros_like(before), float(said[1]) if said else math.nan, _RATE)
    check_that(bool((after.abs() < before.abs()).all()), f"expected {entry['expect']}, got {after.tolist()}")


def _keeps_shape(entry: Mapping[str, Any], device: torch.device) -> None:
    shape = [int(size) for size in entry["name"].split()[1].split("x")]
    before = torch.linspace(-1, 1, math.prod(shape), device=device).view(shape)
    after = _stepped(before, before.cos(), 0.0, _RATE)
    check_that(list(after.shape) == shape and bool(after.isfinite().all()), f"got {list(after.shape)}")


def _decays_ones(entry: Mapping[str, Any], device: torch.device) -> None:
    said = _FILLED.fullmatch(entry.get("input", ""))
    if said is None:
        raise UnknownError(f"the input {entry.get('input')!r}")
    d_input, d_output, *size = (int(number) for number in said.groups()[:4])
    value, decay, lr = (float(number) for number in said.groups()[4:])
    model = layers.LinearConfig(d_input=d_input, d_output=d_output, bias=False).init().to(device)
    nn.init.ones_(model.weight)
    model(torch.full(size, value, device=device)).sum().backward()
    optimizer_config("Muon", {"weight_decay": {"penalty": decay}}).init().step(
        lr, model, GradientsParams.from_module(model)
    )
    largest = float(entry["expect"].split()[-1])
    check_that(bool((model.weight < largest).all()), f"expected {entry['expect']}, got {model.weight.tolist()}")


def _stepped(before: Tensor, grad: Tensor, decay: float, lr: float) -> Tensor:
    tensor = nn.Parameter(before.clone())
    tensor.grad = grad
    model = nn.ParameterDict({"matrix": tensor})
    MuonConfig(weight_decay=decay).init().step(lr, model, GradientsParams.from_module(model))
    return tensor.detach()


def _matrix(device: torch.device) -> Tensor:
    """No value of it is 0."""
    return torch.linspace(-1.5, 2, 16, device=device).view(4, 4)


def _unknown(what: str) -> None:
    raise UnknownError(what)


_PROPERTIES: Mapping[str, tuple[Callable[[Mapping[str, Any], torch.device], None], str]] = {
    r"rank [^2] parameter": (_refused, r"panic with message: .+"),
    "newton_schulz_orthogonality": (_orthogonal, r"diagonal of O @ O\^T within [\d.]+ of 1"),
    "zero gradient, no weight decay": (_unchanged, r"parameter unchanged to [\de.-]+"),
    r"zero gradient, weight decay [\d.]+": (_decayed, r"absolute values shrink, no NaN"),
    r"(tall|wide|square) \d+x\d+": (_keeps_shape, r"shape preserved"),
    "weight decay": (_decays_ones, r"all weights < [\d.]+"),
}
"""The properties by patterns of their names, with those of what they say."""
