"""Models for Burn 0.22: a crate of Rust with the model's struct, its weights, and a program that checks it."""

import inspect
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._outputs import Output
from ...config.root_keys import Input
from ...errors import ArgumentError
from ..tasks.generative import Networks
from .rust.crate import write_crate
from .source import Example, Source, called_parts, example_of, program_of


def write_burn(
    source: Source, out: Path | Output, inputs: Sequence[Input] = (), dtype: torch.dtype | None = None
) -> list[str]:
    """Write the crate of a model, and say what came of it; `dtype` is that of the weights in its file.

    Raises:
        NoCounterpartError: Burn has not something that the model does; it is named, and nothing is written.
    """
    if dtype is not None:
        source.model.to(dtype).float()  # Rust computes with the rounded weights in its own dtype
    model, (example, example_source) = subject_of(source, inputs)
    origin = ", ".join(
        f"{name} {os.path.basename(str(it))}" for name, it in source.about.items() if name in ("run", "step", "record")
    )
    about = f"{type(source.model).__name__}, written by burnlike{f' ({origin})' if origin else ''}"
    program = program_of(model, example)
    return [
        f"example   {example_source}",
        *write_crate(program, example, out, about=about, classes=source.classes, dtype=dtype),
    ]


def subject_of(source: Source, inputs: Sequence[Input] = ()) -> tuple[nn.Module, Example]:
    """The module that is exported, and an example of what it is called with."""
    if isinstance(source.model, Networks):
        return CalledNetworks(source.model), Example(
            called_parts(source), "items of the validation data, of each network its own"
        )
    return source.model, example_of(source, inputs)


class CalledNetworks(nn.Module):
    """Networks that are called one by one, as a module that calls each with the input of its name."""

    def __init__(self, networks: nn.Module) -> None:
        super().__init__()
        for name, network in networks.named_children():
            self.add_module(name, network)

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        return {name: self.get_submodule(name)(it) for name, it in inputs.items()}


def write_module(
    module: nn.Module, example: Tensor | Sequence[Tensor] | Mapping[str, Tensor], out: str | os.PathLike[str]
) -> Path:
    """Write the crate of any module: `interop.to_burn`."""
    values = (example,) if isinstance(example, Tensor) else example
    try:
        signature = inspect.signature(module.forward)
        bound = signature.bind(**values) if isinstance(values, Mapping) else signature.bind(*values)
    except TypeError as error:
        raise ArgumentError(f"to_burn: {type(module).__name__} can't be called with the example: {error}") from error
    inputs: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        is_open = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        inputs |= value if is_open else {name: value}
    wrong = [f"{name} is a {type(it).__name__}" for name, it in inputs.items() if not isinstance(it, Tensor)]
    if wrong:
        raise ArgumentError(
            f"to_burn: expected tensors as the example, {', '.join(wrong)}; wrap the module in one that takes tensors"
        )
    if all(
        it.dim() and it.shape[0] == 1 for it in inputs.values()
    ):  # of one item, torch would take the number for fixed
        inputs = {name: torch.cat((it, it)) for name, it in inputs.items()}
    modes = {it: it.training for it in module.modules()}
    try:
        program = program_of(module.eval(), inputs)
        write_crate(program, inputs, Path(out), about=f"{type(module).__name__}, written by burnlike")
    finally:
        for part, training in modes.items():
            part.training = training
    return Path(out)
