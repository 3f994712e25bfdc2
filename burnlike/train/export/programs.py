"""Models as ONNX, and as programs of `torch.export`, which run without burnlike: in Python, by AOTInductor, ExecuTorch.

What is written is run again, and proved to compute as the model does.
"""

import io
import json
import logging
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from ... import __version__
from ..._atomic import AtomicFile
from ..._outputs import Output
from ...errors import ConfigError
from ...nn.recurrent.recurrence import Direction
from ...ops._function import references
from .source import Program, Source, may_vary, others_of, outputs_of

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
        sizes = ", ".join(f"{name} {list(value.shape)}" for name, value in inputs.items())
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
    metadata |= {name: value if isinstance(value, str) else json.dumps(value) for name, value in source.about.items()}
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
        needed("onnx", package)
    _refuse_steps(program, example)
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
            needed("onnx", "onnxruntime")
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


def _refuse_steps(program: Program, example: Mapping[str, Tensor]) -> None:
    """Refuse recurrent layers that are computed step by step, as a file of steps takes sequences of one length."""
    if any(1 in dims for dims in may_vary(example).values()):
        for path, layer in program.model.named_modules():
            if isinstance(layer, Direction) and layer.kernel() is None:
                raise ConfigError(
                    f"--to onnx: {path or 'the model'} ({type(layer).__name__}): ONNX has no operator for its settings"
                    " (`clip`, `input_forget`, `reset_after: false`, other activations), and its steps can't be written"
                    " for texts of any length; leave these settings out, or take --to pt2, for texts of one length"
                )


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
    shapes = {tensor.name: tensor.shape for tensor in session.get_inputs()}
    vary = {
        name: {at: size for at, size in enumerate(shapes.get(name, ())) if isinstance(size, str)} for name in example
    }

    def run(inputs: Mapping[str, Tensor]) -> Sequence[Any]:
        try:
            return session.run(None, {name: value.numpy() for name, value in inputs.items() if name in shapes})
        except Exception as error:  # its classes are made in C++
            raise ConfigError(f"--to onnx: onnxruntime can't run the model: {error}") from error

    return proof(program, example, vary, run, "onnxruntime", coarse=coarse)


def needed(target: str, package: str) -> None:
    """Raise a ConfigError if a package of the extra of a target is not installed."""
    if find_spec(package) is None:
        raise ConfigError(f"--to {target} needs the package {package}: pip install 'burnlike[{target}]'")


METADATA = "burnlike.json"
_BUFFER_BYTES = 1 << 20


def write_program(
    source: Source,
    program: Program,
    example: Mapping[str, Tensor],
    out: Path | Output,
    *,
    reference: Program | None = None,
) -> list[str]:
    """Write the model as `torch.export.save` does, read it back, compare its results, and say what came of it.

    `torch.export.load(path, extra_files={"burnlike.json": ""})` also gives the metadata.

    Args:
        reference: what it is compared with; None is the program itself. One whose weights are not rounded may differ.

    Raises:
        ConfigError: torch can't export the model, or the program computes something else; there is no file then.
    """
    with quiet(), references(), torch.no_grad():
        program.keeps_tensor = True
        try:
            exported = torch.export.export(program, tuple(example.values()), dynamic_shapes=may_vary(example))
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            kind = type(program.model).__name__
            raise ConfigError(f"--to pt2: torch can't export {kind}: {reason_of(error)}") from error
        finally:
            program.keeps_tensor = False
        output = Output.of(out, "export")
        with output.files() as folder:
            path = folder / output.path.name
            with AtomicFile(path) as file, open(file.descriptor, "wb", _BUFFER_BYTES, closefd=False) as sink:
                archive: Any = _Archive(sink)
                torch.export.save(exported, archive, extra_files={METADATA: json.dumps(metadata_of(source, program))})
                if archive.error is not None:
                    raise archive.error
                sink.flush()
                file.commit()
            try:
                loaded = torch.export.load(path)
            except (AssertionError, RuntimeError, TypeError, ValueError) as error:
                kind = type(program.model).__name__
                raise ConfigError(
                    f"--to pt2: torch can't read what it exports of {kind}: {reason_of(error)}"
                ) from error
            lines = [f"pt2       {out}, call it with {', '.join(program.input_names)}"]
            inputs = [it for it in loaded.graph.nodes if it.op == "placeholder" and it.meta.get("val") is not None]
            shapes = {it.name: it.meta["val"].shape for it in inputs}
            vary = {  # the dimensions that are no numbers in the program
                name: {at: size for at, size in enumerate(shapes.get(name, ())) if not isinstance(size, int)}
                for name in example
            }
            return lines + proof(
                reference or program,
                example,
                vary,
                lambda inputs: (*outputs_of(loaded.module()(*inputs.values())).values(),),
                "torch.export.load",
                coarse=reference is not None,
            )


class _Archive(io.RawIOBase):
    """The file of a program, whose writes never fail: where one does, torch's writer ends the process.

    Attributes:
        error: the first error of a write.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return 0  # `torch.export.save` goes back to the begin at its end, when all is written

    def write(self, data: Any) -> int:
        try:
            if self.error is None:
                self._file.write(data)
        except OSError as error:
            self.error = error
        return len(data)
