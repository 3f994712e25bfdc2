"""Models as programs of `torch.export`, which run without burnlike: in Python, by AOTInductor and ExecuTorch."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from ..._atomic import AtomicFile
from ..._outputs import Output
from ...errors import ConfigError
from ...ops._function import references
from .program import Program, may_vary
from .proof import metadata_of, proof, quiet, reason_of
from .source import Source

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
        try:
            exported = torch.export.export(program, tuple(example.values()), dynamic_shapes=may_vary(example))
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            kind = type(program.model).__name__
            raise ConfigError(f"--to pt2: torch can't export {kind}: {reason_of(error)}") from error
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
            loaded = torch.export.load(path)
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
                lambda inputs: loaded.module()(*inputs.values()),
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
