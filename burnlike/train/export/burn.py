"""Models for Burn 0.22: a burnpack, and the Rust that reads it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._atomic import replace_file
from ..._outputs import Output
from ...config.root_keys import Input
from ...errors import BurnlikeError
from ...record import BurnpackRecorder, Precision, Record
from .rust.operations import IMPORTS
from .rust.parts import Flow, Kind, Struct
from .rust.structs import Writer
from .source import Source, example_of

RECORD, CODE = "model.bpk", "model.rs"


def write_burn(source: Source, out: Path | Output, inputs: Sequence[Input] = ()) -> list[str]:
    """Write `model.bpk` and `model.rs`: the structs with `new`, `load`, and `forward` where the inputs are known.

    Names of tensors are those of the fields in Rust. Initial values are those of the config, where Burn has them.

    Raises:
        NoCounterpartError: Burn has no such layer or option; it is named, and nothing is written.
    """
    try:
        flows, said = _flows(source, inputs), ""
    except BurnlikeError as error:
        flows, said = None, f"forward   left out: {' '.join(str(error).split())}"
    writer = Writer(flows)
    writer.model(source.config, "Model")
    record = Record.of(source.model)
    names = {name: writer.renamed(name) for name in record.tensors}
    renamed = replace(
        record,
        tensors={names[name]: it for name, it in record.tensors.items()},
        ids={names[name]: it for name, it in record.ids.items()},
        aliases={writer.renamed(name): names[it] for name, it in record.aliases.items()},
        states={names[name] for name in record.states},
        layout=None,
    )
    with Output.of(out, "export").directory() as made:
        BurnpackRecorder(Precision(None)).save(renamed, made / RECORD)
        replace_file(made / CODE, rust_of(writer, source).encode())
    lines = [f"burn      {out}: {RECORD}, {CODE}", f"tensors   {len(names)}, as Burn 0.22 reads them"]
    return [*lines, said] if said else lines


def _flows(source: Source, inputs: Sequence[Input]) -> dict[str, Flow]:
    """What each module is called with and what it gives, seen in a forward pass."""
    example, found = example_of(source, inputs), dict[str, Flow]()

    def note(path: str) -> Any:
        def hook(_: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> None:
            tensors = [it for it in (*arguments, *keywords.values()) if isinstance(it, Tensor)]
            found[path] = Flow([_kind(it) for it in tensors], _kinds(output))

        return hook

    modules = [*source.model.named_modules(remove_duplicate=False)]
    handles = [it.register_forward_hook(note(path), with_kwargs=True) for path, it in modules]
    try:
        with torch.no_grad():
            source.model(**example.inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _kind(tensor: Tensor) -> Kind:
    return Kind(tensor.dim(), not tensor.is_floating_point())


def _kinds(output: Any) -> Kind | tuple[Kind, ...] | None:
    if isinstance(output, Tensor):
        return _kind(output)
    if isinstance(output, tuple) and output and all(isinstance(it, Tensor) for it in output):
        return tuple(map(_kind, output))
    return None


def rust_of(writer: Writer, source: Source) -> str:
    """The file of Rust."""
    body = "\n\n".join(_struct(it, is_whole=it is writer.structs[-1]) for it in writer.structs)
    imports = {"burn::module::Module", "burn::store::ModuleRecord", "burn::tensor::Device", *writer.imports}
    imports |= {path for name, path in IMPORTS.items() if name in body}
    imports |= {f"burn::tensor::{name}" for name in ("Tensor", "Int") if name in body.replace("Into", "")}
    about = ", ".join(f"{name} {it}" for name, it in source.about.items() if name in ("run", "step", "record"))
    classes = "" if source.classes is None else _classes(source.classes)
    head = f"//! {type(source.model).__name__}, written by burnlike ({about}), for Burn 0.22."
    return "\n".join([head, "", *(f"use {it};" for it in sorted(imports)), "", classes + body, ""])


def _classes(names: Sequence[str]) -> str:
    quoted = ", ".join('"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' for name in names)
    return f"/// The names of the classes, by number.\npub const CLASSES: [&str; {len(names)}] = [{quoted}];\n\n"


_LOAD = """
    /// The model with the weights of a file, such as `model.bpk`.
    pub fn load(path: &str, device: &Device) -> Self {
        let record = ModuleRecord::load(path).expect("the record is there");
        Self::new(device).load_record(record)
    }
"""


def _struct(struct: Struct, *, is_whole: bool) -> str:
    fields = "".join(f"    {name}: {part.type},\n" for name, part in struct.fields)
    made = "".join(f"            {name}: {part.init},\n" for name, part in struct.fields)
    device = "device" if "device" in made else "_device"
    load = _LOAD if is_whole else ""
    forward = "".join(f"    {line}\n" for line in struct.forward)
    return (
        f"#[derive(Module, Debug)]\npub struct {struct.name} {{\n{fields}}}\n\nimpl {struct.name} {{\n"
        f"    /// The model with initial weights.\n    pub fn new({device}: &Device) -> Self {{\n"
        f"        Self {{\n{made}        }}\n    }}\n{load}" + (f"\n{forward}" if forward else "") + "}"
    )
