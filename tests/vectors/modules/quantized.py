"""Layers with quantized weights: burnlike has no quantized parameters, so each is what its weight dequantizes to."""

import re
from collections.abc import Callable
from typing import Any

import torch

from burnlike import Cpu, Tensor
from burnlike.module import map, params
from burnlike.tensor.quantization import Block, QuantScheme
from tests.burn_configs import module_config

from ..compare import Tolerance
from ..problems import UnknownError
from .expectations import Failure, same
from .results import Result
from .subject import Subject

SCHEME = re.compile(r"Q8S, (?:per tensor|block (\d+)), param F32")


def both(subject: Subject) -> tuple[Any, Any]:
    """The layer, and the same with weights that were quantized by their smallest and largest values."""
    config = subject.record["config"]
    if config.keys() - {"input", "scheme"} != {subject.kind}:
        raise UnknownError(f"unknown config {config!r}")
    found = SCHEME.fullmatch(config["scheme"])
    if found is None:
        raise UnknownError(f"unknown scheme {config['scheme']!r}")
    scheme = QuantScheme(value="Q8S", level=Block(int(found[1]))) if found[1] else QuantScheme(value="Q8S")
    layer: Any = module_config(subject.kind, config[subject.kind]).init().eval()

    def rounded(param: Any) -> torch.Tensor:
        typed: Any = Tensor(param.tensor.detach(), Cpu())
        return typed.quantize_dynamic(scheme).dequantize().inner

    quantized = map(layer, rounded)
    if all(torch.equal(one.tensor, other.tensor) for one, other in zip(params(quantized), params(layer), strict=True)):
        raise Failure("the weights are as before")
    return layer, quantized


def weights(subject: Subject) -> Result:
    """The weights stay close."""
    layer, quantized = both(subject)
    tolerance = Tolerance(subject.record["rtol"], subject.record["atol"])
    for one, other in zip(params(quantized), params(layer), strict=True):
        same(one.tensor.detach(), other.tensor.tolist(), tolerance, one.path)
    return Result(subject.world)


def outputs(subject: Subject) -> Result:
    """The output stays close."""
    layers = both(subject)
    x: Any = subject.wrapped(torch.rand(subject.record["config"]["input"]))
    before, after = (subject.world.plain(layer(x)) for layer in layers)
    same(after, before.tolist(), Tolerance(subject.record["rtol"], subject.record["atol"]), "the output")
    return Result(subject.world)


CALL = "quantize_weights"
QUANTIZED: dict[tuple[str, str], Callable[[Subject], Result]] = {
    (CALL, "dequantized weight is close to the original"): weights,
    (CALL, "output after quantize_weights (MinMax calibration) is close to the original"): outputs,
}
"""Properties by their call and text."""
