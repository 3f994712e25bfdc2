"""A crate of Rust that has a model, runs it, and compares its results with those that Python had."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...._atomic import replace_file
from ...._outputs import Output
from ....errors import NoCounterpartError
from ....record import BurnpackRecorder, Precision, Record
from ..source import Program, others_of
from .calls import NotBurns
from .functions import Functions
from .printing import filled, identifier, snake, statement, unique
from .structs import Structs, text_of_struct
from .tracing import Trace, leaves_of, traced
from .values import kind_of, rank_of, type_of

_KEPT = ("Cargo.lock", "target")
"""What cargo makes in a crate."""


def crate_output(out: Path | Output) -> Output:
    """The place of a crate, whose next export keeps what cargo has made there."""
    output = Output.of(out, "export")
    output.kept = _KEPT
    return output


class Stacked(nn.Module):
    """Computes what an `nn.LSTM`, `nn.GRU` or `nn.RNN` of several layers does, with the same parameters."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_one(layer, number) for number in range(layer.num_layers))
        self.dropout = nn.Dropout(layer.dropout)
        self.directions = 2 if layer.bidirectional else 1

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        states: list[Any] = []
        for number, layer in enumerate(self.layers):
            rows = slice(number * self.directions, (number + 1) * self.directions)
            rows_of_state = None if hx is None else hx[rows] if isinstance(hx, Tensor) else tuple(it[rows] for it in hx)
            input, state = layer(input if not number else self.dropout(input), rows_of_state)
            states.append(state)
        if isinstance(states[0], Tensor):
            return input, torch.cat(states)
        return input, tuple(torch.cat([*parts]) for parts in zip(*states, strict=True))


def _one(layer: nn.RNNBase, number: int) -> nn.RNNBase:
    """The layer with this number, whose parameters are those of the stack."""
    width = layer.hidden_size * (2 if layer.bidirectional else 1)
    options: dict[str, Any] = {"nonlinearity": layer.nonlinearity} if isinstance(layer, nn.RNN) else {}
    kind: Any = type(layer)
    stack = kind(
        layer.input_size if number == 0 else width,
        layer.hidden_size,
        bias=layer.bias,
        batch_first=layer.batch_first,
        bidirectional=layer.bidirectional,
        device="meta",
        **options,
    )
    for name in [*stack._parameters]:
        setattr(stack, name, getattr(layer, name.replace("_l0", f"_l{number}")))
    return stack.train(layer.training)


@contextmanager
def stacks_apart(model: nn.Module) -> Iterator[None]:
    """A `with` block in which the model has a `Stacked` in place of each recurrent layer that is several."""
    homes: list[tuple[nn.Module, str, Any]] = [
        (it, name, child) for it in model.modules() for name, child in it._modules.items() if _is_stack(child)
    ]
    try:
        for home, name, child in homes:
            setattr(home, name, Stacked(child).train(child.training))
        yield
    finally:
        for home, name, child in homes:
            setattr(home, name, child)


def _is_stack(module: Any) -> bool:
    return type(module) in (nn.LSTM, nn.GRU, nn.RNN) and module.num_layers > 1 and not getattr(module, "proj_size", 0)


BURN = "0.22.1"
"""The release of Burn that crates are for."""
RECORD, CHECK = "model.bpk", "check.bpk"


class Written:
    """The Rust of a model: structs, functions and names.

    Attributes:
        program: the model with its inputs by name.
        structs: as they are in the file.
        function: of the model.
    """

    def __init__(self, program: Program, example: Mapping[str, Tensor]) -> None:
        self.program, self.example = program, example
        without = set[str]()
        if "" in leaves_of(program.model, without):
            program.model = _holding(program.model)
        while True:
            self.trace: Trace = traced(program, example, without)
            functions = Functions(self.trace, program.model)
            try:
                self.function = functions.write()
                break
            except NotBurns as error:
                if error.paths <= without:
                    raise NoCounterpartError(f"{error}: a module elsewhere uses its tensors") from error
                without |= error.paths
        self.structs = Structs(functions, self.trace, program.model)

    def code(self, about: str, classes: Sequence[str] | None) -> str:
        """The text of `src/model.rs`."""
        body = "\n".join(text_of_struct(struct, _LOAD) for struct in self.structs.structs.values())
        needs = {"burn::module::Module", "burn::store::ModuleRecord", "burn::store::RecordError"}
        needs.add("burn::tensor::Device")
        words = {*re.findall(r"\w+", body)}
        needs |= {f"burn::tensor::{it}" for it in ("Tensor", "Int", "Bool") if it in words}
        needs |= {need for need in self.structs.needs if need.rpartition(":")[2] in words}
        lines = [f"//! {about}, for Burn {BURN}.", "", *_imports(needs), ""]
        if classes is not None:
            lines += [*_classes(classes), ""]
        return "\n".join(lines) + "\n" + body

    def call(self) -> str:
        """A line of Rust that calls the model."""
        results = len(self.function.outputs)
        names = ", ".join(f"output_{at}" for at in range(results)) if results > 1 else "output"
        inputs = ", ".join(identifier(node.name) for _, node in self.function.inputs)
        return f"let {f'({names})' if results > 1 else names} = model.forward({inputs});"

    def record(self) -> Record:
        """The model's tensors under the names that the structs have."""
        whole = Record.of(self.program.model)
        held = dict(self.trace.values.values())
        tensors, ids, states = dict[str, Tensor](), dict[str, Any](), set[str]()
        for path, rust in self.structs.paths.items():
            if (leaf := self.trace.leaves.get(path)) is None:
                value = held[path] if path in held else self.program.model.get_parameter(path)
                tensors[rust] = _plain(value)
                ids |= {rust: whole.ids[path]} if path in whole.ids else {}
                continue
            part = Record.of(leaf.twin)
            tensors |= {f"{rust}.{name}": tensor for name, tensor in part.tensors.items()}
            ids |= {f"{rust}.{name}": part.ids[name] for name in part.tensors if name in part.ids}
            states |= {f"{rust}.{name}" for name in part.states}
        return replace(Record({}), tensors=tensors, ids=ids, states=states)


def _holding(layer: nn.Module) -> nn.Module:
    """A module of nothing but the layer, as a layer of Burn's is no struct that can have functions."""
    kind = type(layer).__name__
    holder = type(kind, (nn.Module,), {"forward": lambda it, **inputs: next(it.children())(**inputs)})()
    holder.add_module(snake(kind), layer)
    return holder.train(layer.training)


_LOAD = """
    /// The module with the weights of a file such as `model.bpk`, in the device's default dtype.
    ///
    /// # Errors
    ///
    /// The file can't be read, or has other tensors than the module.
    pub fn load(path: &str, device: &Device) -> Result<Self, RecordError> {
        let record = ModuleRecord::load(path)?.cast_to_module_dtype();
        Self::new(device).try_load_record(record)
    }"""


def _imports(paths: set[str]) -> list[str]:
    """`use` lines, one for each module, as rustfmt sorts them."""
    modules: dict[str, list[str]] = {}
    for path in paths:
        module, _, name = path.rpartition("::")
        modules.setdefault(module, []).append(name)
    lines: list[str] = []
    for module, names in modules.items():
        inside = names[0] if len(names) == 1 else f"{{{', '.join(sorted(names))}}}"
        line = f"use {module}::{inside};"
        lines.append(line if len(line) <= 98 else "\n".join([f"use {module}::{{", *filled(sorted(names)), "};"]))
    return sorted(lines)


def _classes(names: Sequence[str]) -> list[str]:
    quoted = [json.dumps(name, ensure_ascii=False) for name in names]
    line = f"pub const CLASSES: [&str; {len(names)}] = [{', '.join(quoted)}];"
    rows = filled(quoted) if all(len(it) <= 10 for it in quoted) else [f"    {it}," for it in quoted]
    rows = [line] if len(", ".join(quoted)) <= 60 else [line.partition(" = [")[0] + " = [", *rows, "];"]
    return ["/// The names of the classes, by number.", "#[allow(dead_code)]", *rows]


def write_crate(
    program: Program,
    example: Mapping[str, Tensor],
    out: Path | Output,
    *,
    about: str,
    classes: Sequence[str] | None = None,
    dtype: torch.dtype | None = None,
) -> list[str]:
    """Write the crate: `Cargo.toml`, `src/model.rs`, `src/main.rs`, `model.bpk`, `check.bpk`, `README.md`.

    Raises:
        NoCounterpartError: Burn has not what the model does; nothing is written then.
    """
    with stacks_apart(program):
        written = Written(program, example)
        record = written.record()
    return write_written(written, record, out, about=about, classes=classes, dtype=dtype)


def write_written(
    written: Written,
    record: Record,
    out: Path | Output,
    *,
    about: str,
    classes: Sequence[str] | None = None,
    dtype: torch.dtype | None = None,
) -> list[str]:
    """Write the crate of what is written already, see `write_crate`."""
    program = written.program
    if dtype is not None:
        cast = {name: it.to(dtype) if it.is_floating_point() else it for name, it in record.tensors.items()}
        record = replace(record, tensors=cast)
    varying = dict(zip(written.example, written.trace.varying().values(), strict=True))
    checks = checks_of(program, written.example, varying)
    code = written.code(about, classes)
    lines = code.count("\n")
    with crate_output(out).directory() as directory:
        (directory / "src").mkdir()
        BurnpackRecorder(Precision(None)).save(record, directory / RECORD)
        BurnpackRecorder(Precision(None)).save(
            Record({f"checks.{at}.{name}": value for at, one in enumerate(checks) for name, value in one.items()}),
            directory / CHECK,
        )
        files = {
            "Cargo.toml": _CARGO,
            "src/model.rs": code,
            "src/main.rs": main_rs(checks),
            "README.md": _README.format(about=about, call=written.call()),
            ".gitignore": "/target\n",
        }
        for path, text in files.items():
            replace_file(directory / path, text.encode())
    return [
        f"burn      {out}: a crate for Burn {BURN}, {lines} lines",
        f"tensors   {len(record.tensors)}",
        f"run       cd {out} && cargo run",
    ]


Checks = list[dict[str, Tensor]]
"""Inputs by the names of fields, and results as `expected_0`, `expected_1`, ..."""


def checks_of(program: Program, example: Mapping[str, Tensor], varying: Mapping[str, Mapping[int, Any]]) -> Checks:
    """Three inputs, of which the second has other sizes as far as they may vary, and the model's results."""
    turned = {name: value.flip(0) if value.dim() else value for name, value in example.items()}
    batches = {name: {0: None} if 0 in dims else {} for name, dims in varying.items()}
    taken, checks = set[str](), Checks()
    names = [unique(identifier(it), taken) for it in example]
    for tries in ([example], [others_of(example, it) for it in (varying, batches)] + [example], [turned]):
        for inputs in tries:
            try:
                with torch.no_grad():
                    results = program(**inputs)
            except (RuntimeError, IndexError, ValueError):  # the model wants sizes that fit each other
                continue
            expected = {f"expected_{at}": result for at, result in enumerate(results)}
            checks.append({name: _plain(value) for name, value in zip(names, inputs.values(), strict=True)})
            checks[-1] |= {name: _plain(value) for name, value in expected.items()}
            break
    return checks


def _plain(tensor: Tensor) -> Tensor:
    saved = tensor.detach().contiguous().clone()
    return saved.reshape(1) if saved.dim() == 0 else saved


_CARGO = f"""[package]
name = "model"
version = "0.1.0"
edition = "2024"

[dependencies]
burn = {{ version = "={BURN}", default-features = false, features = ["std", "store", "flex"] }}

# Without optimization Burn's kernels are a hundred times slower.
[profile.dev.package."*"]
opt-level = 3
"""


def main_rs(checks: Checks) -> str:
    """A program that runs the model on the saved inputs and compares its results with the saved ones."""
    types = {name: type_of(value) for name, value in checks[0].items()}
    expected = [it for it in types if it.startswith("expected_")]
    results = ["result"] if len(expected) == 1 else [f"result_{at}" for at in range(len(expected))]
    fields, compares = list[str](), list[str]()
    for check in checks:
        fields.append("            Check {")
        for name, tensor in check.items():
            zeros = f"zeros({[*tensor.shape]}, &device)"
            is_bool = kind_of(tensor) == "Bool"
            zeros = f"Tensor::<{rank_of(tensor)}, Int>::{zeros}.bool()" if is_bool else f"Tensor::{zeros}"
            fields += statement(f"{name}: ", f"Param::initialized(ParamId::new(), {zeros})", ",", 16)
        fields.append("            },")
    for result, name in zip(results, expected, strict=True):
        convert = "" if types[name].count(",") == 0 else ".float()"
        compare = f"compare({result}{convert}, check.{name}.val(){convert}, &mut largest)"
        compares += statement("", compare, ";", 4)
    arguments = ", ".join(f"check.{it}.val()" for it in types if it not in expected)
    head = results[0] if len(results) == 1 else f"({', '.join(results)})"
    use = {"Device", "Tensor", *(it for text in types.values() for it in re.findall("Int|Bool", text))}
    return _MAIN.format(
        rows="\n".join(f"    {name}: Param<{kind}>," for name, kind in types.items()),
        made="\n".join(fields),
        call="\n".join(statement(f"let {head} = ", f"model.forward({arguments})", ";", 4)),
        compares="\n".join(compares),
        use=", ".join(sorted(use | ({"Int"} if "Bool" in use else set()))),
    )


_MAIN = """//! Runs the model on saved inputs, and compares its results with those that it had in Python.

mod model;

use burn::module::{{Module, Param, ParamId}};
use burn::store::{{ModuleRecord, RecordError}};
use burn::tensor::{{{use}}};

use crate::model::Model;

/// An input, and the model's result.
#[derive(Module, Debug)]
struct Check {{
{rows}
}}

/// The saved inputs and results.
#[derive(Module, Debug)]
struct Checks {{
    checks: Vec<Check>,
}}

fn run(model: &Model, check: &Check) -> f32 {{
    let mut largest = 0.0;
{call}
{compares}
    largest
}}

fn compare<const D: usize>(result: Tensor<D>, expected: Tensor<D>, largest: &mut f32) {{
    assert_eq!(result.dims(), expected.dims(), "the shape of a result");
    let scale: f32 = expected.clone().abs().max().into_scalar();
    let difference: f32 = (result - expected).abs().max().into_scalar();
    assert!(!difference.is_nan(), "a result is not a number");
    *largest = largest.max(difference / scale.max(1.0));
}}

fn main() -> Result<(), RecordError> {{
    let device = Device::default();
    let model = Model::load("model.bpk", &device)?;
    let checks = Checks {{
        checks: vec![
{made}
        ],
    }};
    let record = ModuleRecord::load("check.bpk")?.cast_to_module_dtype();
    for check in checks.try_load_record(record)?.checks {{
        println!("largest difference {{:e}}", run(&model, &check));
    }}
    Ok(())
}}
"""
_README = """# {about}

`cargo run` loads `model.bpk`, runs the model on three saved inputs, and prints the largest difference from the results
that it had in Python, relative to the largest value.

```rust
let device = Device::default();
let model = Model::load("model.bpk", &device)?;
{call}
```

`Model::new` draws initial weights as Burn's layers do. Other backends are features of `burn` in `Cargo.toml`, such as
`wgpu` or `cuda`; a model on `device.autodiff()` can be trained.
"""
