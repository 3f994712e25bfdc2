"""Commands that write an output, which take the place of an earlier one where they may."""

import contextlib
import functools
import io
from pathlib import Path
from unittest.mock import patch

from burnlike.cli.main import main
from burnlike.config.json_schema import json_schema

OUTPUTS = {
    "export a run": "export IN/run --to burn --out OUT/burn",
    "export a record": "export DIR/linear.yaml --record IN/linear.safetensors --to burn --out OUT/burn",
    "export hf": "export DIR/lm.yaml --record IN/lm.safetensors --to hf --out OUT/hf",
    "export gguf": "export DIR/lm.yaml --record IN/lm.safetensors --to gguf --out OUT/model.gguf",
    "export onnx": "export IN/run --to onnx --out OUT/model.onnx",
    "export pt2": "export IN/run --to pt2 --out OUT/model.pt2",
    "merge": "merge IN/adapted --out OUT/merged",
    "tokenizer": "tokenizer IN/text.txt --vocab-size 261 --out OUT/tokenizer.json --force",
    "tokenizer of a folder": "tokenizer IN --pattern *.txt --vocab-size 261 --out OUT/tokenizer.json --force",
    "report": "report IN/run --out OUT/report.html",
    "predict": "predict IN/run IN/rows.csv --out OUT/predictions.csv --force",
    "convert": "convert IN/linear.safetensors OUT/linear.bpk --force",
    "convert a set": "convert IN/set OUT/linear.safetensors --force",
    "convert to a set": "convert IN/linear.safetensors OUT/set --shard-size 2kB --force",
    "convert to a named set": "convert IN/linear.safetensors OUT/linear.safetensors --shard-size 2kB --force",
    "convert to dcp": "convert IN/linear.safetensors OUT/linear.dcp",
    "train --find": "train IN/table.yaml --find lr --out OUT/rates.json --force",
    "launch": "launch IN/table.yaml --nproc 1 --slurm --out OUT/job.sh --force",
    "profile": "profile IN/table.yaml --steps 1 --out OUT/profile --force",
    "init": "init OUT/configs",
    "show": "show IN/net.yaml --svg OUT/net.svg --input 1,2",
}
"""Name of a row of `tests/cli/test_outputs.py` -> the command: OUT is where it writes, IN what it reads."""


_schema = functools.cache(json_schema)
"""The schema of a config, which takes half a second and no file."""


def called(*words: object) -> None:
    """Run a command; an OSError has its message, or what the first run of several says that failed."""
    said, error = io.StringIO(), io.StringIO()
    schemas = patch("burnlike.config.json_schema.json_schema", _schema)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(error), schemas:
        code = main([str(word) for word in words])
    if code:
        lines = [*error.getvalue().splitlines(), *said.getvalue().splitlines()]
        told = [it for it in lines if it.startswith("burnlike: error: ") or " failed: " in it]
        if not told or any("Traceback" in it for it in lines):
            raise RuntimeError(f"exit status {code}, {lines}")
        raise OSError(told[0])


def output(name: str, place: Path, folder: Path, version: str = "new") -> None:
    """Write the output of one version."""
    command = OUTPUTS[name].replace("IN", str(place / version)).replace("OUT", str(folder)).replace("DIR", str(place))
    called(*command.split())
