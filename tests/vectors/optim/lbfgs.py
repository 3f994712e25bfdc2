"""L-BFGS and its line search: the section `lbfgs`."""

from collections.abc import Mapping
from typing import Any

import torch

from burnlike import nn as layers
from burnlike.optim import GradientsParams, Lbfgs
from burnlike.optim.lbfgs.lbfgs import Sample, cubic_interpolate, strong_wolfe
from tests.burn_configs import lbfgs_config

from ..problems import UnknownError
from .entries import Case, check_keys, check_near, check_that, tolerance_of

_POLYNOMIAL = "f(x) = x^4 - 2x^2 + x ; gradient printed by Burn test closure: 4x^3 - 4x + 1"
_WOLFE = {"function", "x", "d", "t", "c1", "c2", "tolerance_change", "max_ls", "expected"}


def lbfgs_cases(section: Mapping[str, Any]) -> list[Case]:
    """The cases of the section."""
    cases = [
        Case(str(entry.get("id", f"step {index}")), lambda device, entry=entry: _check_steps(entry, device))
        for index, entry in enumerate(section.get("step_tests", []))
    ]
    if "cubic_interpolate" in section:
        cases.append(Case("LBFGS/cubic_interpolate", lambda _: _check_interpolation(section["cubic_interpolate"])))
    if "strong_wolfe" in section:
        cases.append(Case("LBFGS/search", lambda device: _check_search(section["strong_wolfe"], device)))
    for name in sorted(section.keys() - {"step_tests", "cubic_interpolate", "strong_wolfe"}):
        cases.append(Case(f"LBFGS/{name}", lambda _, name=name: _unknown(name)))
    return cases


def _check_steps(entry: Mapping[str, Any], device: torch.device) -> None:
    """Fit a line to points; the loss that a step returns is the one after it."""
    needed = {"config", "learning_rate", "num_optimizer_steps", "model", "initial", "x", "y", "loss", "expected"}
    check_keys(entry, needed, {"initial_loss", "tolerance"})
    if entry["model"] != "Linear(1,1): y = x*w + b" or entry["loss"] != "sum of squared errors":
        raise UnknownError(f"the model {entry['model']!r} with the loss {entry['loss']!r}")
    x, y = (torch.tensor(entry[name], device=device)[:, None] for name in ("x", "y"))
    model = layers.LinearConfig(d_input=1, d_output=1).init().to(device)
    weight, bias = entry["initial"]["weight"], entry["initial"]["bias"]
    model.load_state_dict({"weight": torch.tensor([[weight]]), "bias": torch.tensor([bias])})
    losses: list[float] = []

    def closure(module: layers.Linear) -> tuple[float, GradientsParams]:
        loss = (module(x) - y).square().sum()
        loss.backward()
        losses.append(loss.item())
        return losses[-1], GradientsParams.from_module(module)

    optimizer: Lbfgs = lbfgs_config(entry["config"]).init()
    returned = 0.0
    for _ in range(entry["num_optimizer_steps"]):
        model, returned = optimizer.step(entry["learning_rate"], model, closure)
    tolerance = tolerance_of(entry.get("tolerance"))
    found = {"weight": model.weight.reshape(()), "bias": model.bias, "loss_returned": returned}
    for name, expected in entry["expected"].items():
        if name not in found:
            raise UnknownError(f"the expectation {name!r}")
        value = found[name]
        check_near(value.reshape(()) if isinstance(value, torch.Tensor) else value, expected, tolerance, name)
    if "initial_loss" in entry:
        check_near(losses[0], entry["initial_loss"], tolerance, "the initial loss")


def _check_interpolation(entry: Mapping[str, Any]) -> None:
    check_keys(entry, {"args", "cases"}, {"tolerance"})
    if entry["args"] != ["x1", "f1", "g1", "x2", "f2", "g2", "bounds"]:
        raise UnknownError(f"the arguments {entry['args']!r}")
    for case in entry["cases"]:
        *numbers, bounds = case["in"]
        found = cubic_interpolate(*numbers, bounds=None if bounds is None else tuple(bounds))
        check_near(found, case["out"], tolerance_of(entry.get("tolerance")), f"of {case['in']}")


def _check_search(entry: Mapping[str, Any], device: torch.device) -> None:
    check_keys(entry, _WOLFE, {"tolerance"})
    if entry["function"] != _POLYNOMIAL or (entry["c1"], entry["c2"]) != (1e-4, 0.9):
        raise UnknownError(f"the function {entry['function']!r} with c1 = {entry['c1']} and c2 = {entry['c2']}")
    x0, direction = (torch.tensor([entry[name]], device=device) for name in ("x", "d"))

    def evaluate(t: float) -> Sample:
        x = x0 + t * direction
        gradient = 4 * x**3 - 4 * x + 1
        loss = x * x * x * x - 2 * x * x + x  # the numbers have the roundings of powers by multiplication
        return Sample(t, loss.item(), gradient, (gradient * direction).item())

    start = evaluate(0.0)
    best, evals = strong_wolfe(
        evaluate,
        start,
        entry["t"],
        largest=abs(entry["d"]),
        tolerance_change=entry["tolerance_change"],
        max_iter=entry["max_ls"],
    )
    found = {
        "f_init": start.loss,
        "gtd": start.slope,
        "f_final": best.loss,
        "g": best.gradient.item(),
        "t": best.t,
        "evals": evals,
    }
    check_that(entry["expected"].keys() <= found.keys(), f"unknown expectations in {sorted(entry['expected'])}")
    for name, expected in entry["expected"].items():
        check_near(found[name], expected, tolerance_of(entry.get("tolerance")), name)


def _unknown(name: str) -> None:
    raise UnknownError(f"the part {name!r} of the section")
