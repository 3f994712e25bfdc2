"""Exports of a model: what each target takes, and the call of it."""

import copy
import inspect
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ..._outputs import Output
from ...config.root_keys import Input
from ...errors import ArgumentError
from ..tasks.generative import Networks
from .programs import needed, write_onnx, write_program
from .rust.crate import crate_output, write_crate
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
        return {name: self.get_submodule(name)(value) for name, value in inputs.items()}


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
    # Of one item, torch would take the number for fixed.
    if all(it.dim() and it.shape[0] == 1 for it in inputs.values()):
        inputs = {name: torch.cat((it, it)) for name, it in inputs.items()}
    modes = {it: it.training for it in module.modules()}
    try:
        program = program_of(module.eval(), inputs)
        write_crate(program, inputs, Path(out), about=f"{type(module).__name__}, written by burnlike")
    finally:
        for part, training in modes.items():
            part.training = training
    return Path(out)


Target = Literal["onnx", "pt2", "hf", "gguf", "burn"]
Dtype = Literal["float32", "float16", "bfloat16"]
Quantized = Literal["int8", "q8_0", "q4_k"]
NAMES = {"onnx": "model.onnx", "pt2": "model.pt2", "hf": "huggingface", "gguf": "model.gguf", "burn": "burn"}
"""The file, or the directory, that a target writes where `--out` says no other."""
MARKS = {
    "onnx": re.compile(rb"\x08producer\x12.burnlike ", re.DOTALL),
    "pt2": re.compile(rb"PK\x01\x02.{42}[^\0]{0,200}extra/burnlike\.json", re.DOTALL),
    "gguf": re.compile(rb"burnlike\.producer\x08", re.DOTALL),
}
"""Bytes in each file that a target writes: metadata of ONNX and GGUF, the name of an entry in a program's archive."""


def export(
    source: Source,
    to: Target,
    out: Path | Output,
    *,
    dtype: Dtype | None = None,
    quantize: Quantized | None = None,
    normalize: bool = False,
    inputs: Sequence[Input] = (),
) -> list[str]:
    """Write a model for other programs, and say what came of it.

    Args:
        to: `onnx`; `pt2`, a program of `torch.export`; `hf`, a directory that transformers loads; `gguf`, a file
            for llama.cpp; `burn`, a crate of Rust.
        out: the file of `onnx`, `pt2` and `gguf`, the directory of others. It replaces nothing but an earlier export.
        dtype: of the parameters, and of floats that go in and out; None leaves it.
        quantize: round weights of matrix products to 8 bits; for `gguf` in its blocks of 8 or of 4 bits.
        normalize: whether the model itself does what `Normalize` of the data's transforms did.
        inputs: of the model, to export it with random values; none: items of the run's data, or what the config says.

    Raises:
        ArgumentError: an option that the target does not take, or a place where something else is.
        ConfigError: the model can't be expressed there, a package is missing, or what was written computes something
            else; nothing is written then.
    """
    if to not in get_args(Target):
        raise ArgumentError(f"--to {to}: expected one of {', '.join(get_args(Target))}")
    has_program = to in ("onnx", "pt2")
    kinds = ["int8"] if has_program else ["q8_0", "q4_k"] if to == "gguf" else []
    if quantize is not None and quantize not in kinds:
        takes = f"--to {to} takes {' and '.join(kinds)}" if kinds else f"--to {to} writes the weights as they are"
        raise ArgumentError(f"--quantize {quantize}: int8 is for onnx and pt2, q8_0 and q4_k for gguf; {takes}")
    if normalize and not has_program:
        raise ArgumentError(f"--with-normalize is for onnx and pt2; --to {to} writes the weights as they are")
    if quantize is not None and dtype is not None and to == "gguf":
        raise ArgumentError(f"--dtype {dtype}: --quantize {quantize} says the type of the weights; leave one out")
    dtypes = {it.dtype for it in source.model.parameters()} if dtype is None else {getattr(torch, dtype)}
    if to == "onnx" and torch.bfloat16 in dtypes:
        whose = "the weights are bfloat16" if dtype is None else "--dtype bfloat16"
        raise ArgumentError(f"{whose}: onnxruntime computes in float32 and float16; say one of these by --dtype")
    if normalize and not source.normalize:
        raise ArgumentError("--with-normalize: the run's transforms have no Normalize; leave it out")
    out = crate_output(out) if to == "burn" else Output.of(out, "export", MARKS.get(to))
    out.check_file() if to in MARKS else out.check_directory()
    if to == "burn":
        return write_burn(source, out, inputs, None if dtype is None else getattr(torch, dtype))
    if to in ("hf", "gguf") and source.config is None and not callable(getattr(source.model, "save_pretrained", None)):
        raise ArgumentError(
            f"--to {to}: transformers knows no such model; give one of a config, or one of transformers"
        )
    if to == "gguf":
        needed("gguf", "gguf")
        from .gguf_file import write_gguf

        return write_gguf(source, out, dtype, quantize)
    if dtype is not None:
        source.model.to(getattr(torch, dtype))
    if to == "hf":
        from .hugging_face import write_directory

        return write_directory(source, out, inputs)
    return _program(source, to, out, quantize, normalize, inputs)


def _program(
    source: Source, to: Target, out: Output, quantize: str | None, normalize: bool, inputs: Sequence[Input]
) -> list[str]:
    example = example_of(source, inputs)
    program = program_of(source.model, example.inputs, source.normalize if normalize else ())
    lines = [f"example   {example.origin}"]
    if to == "onnx":
        return lines + write_onnx(source, program, example.inputs, out, quantize)
    if quantize is None:
        return lines + write_program(source, program, example.inputs, out)
    from ...interop.quantize import quantize_

    # A copy: the proof compares with the model as it was.
    rounded = program_of(copy.deepcopy(source.model), example.inputs, source.normalize if normalize else ())
    quantize_(rounded.model, "int8")
    return lines + write_program(source, rounded, example.inputs, out, reference=program)
