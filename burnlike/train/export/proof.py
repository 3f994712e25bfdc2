"""Proof that what was exported computes as the model does; and what both exporters say about a model."""

import json
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ... import __version__
from ...errors import ConfigError
from .program import Program, may_vary, others_of
from .source import Source

_TOLERANCES = {torch.float32: 1e-3, torch.float64: 1e-6}
_HALF = 0.1
"""Differences that are allowed, relative to the largest value, by the type of the result."""
_LOGGERS = ("torch.onnx", "torch.export", "torch.fx", "onnxscript", "onnx_ir")


def proof(
    program: Program,
    example: Mapping[str, Tensor],
    vary: Mapping[str, Mapping[int, Any]],
    run: Callable[[Mapping[str, Tensor]], Sequence[Any]],
    by: str,
    *,
    coarse: bool = False,
) -> list[str]:
    """Compare results with the model's: of the example, and of one of other sizes as far as they may `vary`.

    Args:
        run: computes the outputs, by the program `by`.
        coarse: whether weights were quantized: how far the results differ is for the user to judge then.

    Raises:
        ConfigError: a result is no number, or differs by more than rounding explains.
    """
    lines: list[str] = []
    for inputs in (example, others_of(example, vary)):
        difference = _largest_difference(program, inputs, run(inputs), by, coarse=coarse)
        sizes = ", ".join(f"{name} {list(it.shape)}" for name, it in inputs.items())
        lines.append(f"checked   by {by}: largest difference {difference:.2g} ({sizes})")
    for name, dims in may_vary(example).items():
        lines += [f"fixed     size {at} of {name} is {example[name].shape[at]}" for at in dims if at not in vary[name]]
    return lines


def _largest_difference(
    program: Program, inputs: Mapping[str, Tensor], results: Sequence[Any], by: str, *, coarse: bool
) -> float:
    with torch.no_grad():
        wanted = program(**inputs)
    mask = inputs.get("attention_mask")
    largest = 0.0
    for name, expected, result in zip(program.output_names, wanted, results, strict=True):
        got = torch.as_tensor(result)
        if got.shape != expected.shape:
            raise ConfigError(f"{by} gives {list(got.shape)} for {name}, the model gives {list(expected.shape)}")
        if not expected.numel():
            continue
        allowed = math.inf if coarse else _TOLERANCES.get(expected.dtype, _HALF)
        expected, got = expected.double(), got.double()
        if mask is not None and expected.dim() > 2 and expected.shape[:2] == mask.shape:
            # At padding that sees nothing, programs may say anything.
            expected, got = expected[mask != 0], got[mask != 0]
        difference = float((got - expected).abs().max())
        scale = max(1.0, float(expected.abs().max()))
        if not difference <= allowed * scale:
            raise ConfigError(
                f"{by} computes something else: {name} differs from the model's by {difference:.3g}, of values up to"
                f" {scale:.3g}; nothing was written"
            )
        largest = max(largest, difference)
    return largest


def metadata_of(source: Source, program: Program) -> dict[str, str]:
    """Metadata of the file for its users: the classes, the preprocessing of inputs, and the model's name."""
    normalize = [{"mean": [*mean], "std": [*std]} for mean, std in source.normalize]
    metadata = {"producer": f"burnlike {__version__}", "model": type(source.model).__name__}
    metadata |= {name: it if isinstance(it, str) else json.dumps(it) for name, it in source.about.items()}
    if source.classes is not None:
        metadata["classes"] = json.dumps([*source.classes])
    if normalize:
        metadata |= {"normalize": json.dumps(normalize), "normalized_in_the_model": json.dumps(program.normalizes)}
    return metadata


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out what the exporters say about themselves."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def reason_of(error: BaseException) -> str:
    """The root cause of an exporter's error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:500]
