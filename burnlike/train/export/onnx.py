"""Models as ONNX, which onnxruntime runs to prove that it computes the same."""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..._outputs import Output
from ...errors import ConfigError
from ...ops._function import references
from .program import Program, may_vary
from .proof import metadata_of, proof, quiet, reason_of
from .source import Source


def write_onnx(
    source: Source, program: Program, example: Mapping[str, Tensor], out: Path | Output, quantize: str | None = None
) -> list[str]:
    """Write the model to a `.onnx` file, compare onnxruntime's results with the model's, and say what came of it.

    Sizes of the batch and of sequences may vary, where torch's exporter allows it. The file's metadata has the classes,
    `normalize` (what the inputs go through before, or within the model), and where the model is from.

    Raises:
        ConfigError: a package is missing, the model has what ONNX has not, or onnxruntime computes something else;
            there is no file then.
    """
    for package in ("onnx", "onnxscript"):
        _needed(package)
    output = Output.of(out, "export")
    with output.files() as folder:
        path = folder / output.path.name
        exported = _exported(program, example)
        names: dict[str, str] = {}  # of the sizes that vary: `batch`, `length`, and `NAME_length` of further sequences
        for value in exported.model.graph.inputs:
            for place, size in enumerate(value.shape):
                if not isinstance(size, int) and str(size) not in names:
                    length = "length" if "length" not in names.values() else f"{value.name}_length"
                    names[str(size)] = "batch" if place == 0 else length
        exported.rename_axes(names)
        exported.model.metadata_props.update(metadata_of(source, program))
        if quantize is None:
            exported.save(path)
        else:
            _needed("onnxruntime")
            from onnxruntime.quantization import QuantType, quantize_dynamic

            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".export-") as aside, quiet():
                exported.save(Path(aside, "whole.onnx"))
                root = logging.getLogger()
                level, root.level = root.level, logging.ERROR  # it asks for a preparation that is of no use here
                try:  # weights of 8 bits in matrix products, whose inputs are rounded as they come
                    quantize_dynamic(Path(aside, "whole.onnx"), path, weight_type=QuantType.QInt8)
                finally:
                    root.level = level
        inputs = ", ".join(f"{it.name} [{', '.join(map(str, it.shape))}]" for it in exported.model.graph.inputs)
        lines = [f"onnx      {out}, inputs {inputs}"]
        if find_spec("onnxruntime") is None:
            return [*lines, "checked   no: onnxruntime is not installed"]
        lines += _checked(program, example, path, coarse=quantize is not None)
    return lines


def _exported(program: Program, example: Mapping[str, Tensor]) -> Any:
    with quiet(), references(), torch.no_grad():
        try:
            exported = torch.onnx.export(
                program,
                kwargs=dict(example),
                dynamic_shapes=may_vary(example),
                input_names=program.input_names,
                output_names=program.output_names,
                dynamo=True,
                verbose=False,
            )
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            raise ConfigError(
                f"--to onnx: torch can't export {type(program.model).__name__}: {reason_of(error)}"
            ) from error
    assert exported is not None
    return exported


def _checked(program: Program, example: Mapping[str, Tensor], file: Path, *, coarse: bool) -> list[str]:
    """Compare what onnxruntime computes with the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    shapes = {it.name: it.shape for it in session.get_inputs()}
    vary = {
        name: {at: size for at, size in enumerate(shapes.get(name, ())) if isinstance(size, str)} for name in example
    }

    def run(inputs: Mapping[str, Tensor]) -> Sequence[Any]:
        try:
            return session.run(None, {name: it.numpy() for name, it in inputs.items() if name in shapes})
        except Exception as error:  # its classes are made in C++
            raise ConfigError(f"--to onnx: onnxruntime can't run the model: {error}") from error

    return proof(program, example, vary, run, "onnxruntime", coarse=coarse)


def _needed(package: str) -> None:
    if find_spec(package) is None:
        raise ConfigError(f"--to onnx needs the package {package}: pip install 'burnlike[onnx]'")
