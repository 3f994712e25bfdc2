"""Rows of the section "Records and files" of docs/deviations."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import burnlike as bl
from burnlike.errors import PrecisionError, RecordError, RecordFormatError, RecordMismatchError
from burnlike.module import params

from .record_cases import Networks, answers_of
from .rows import ELSEWHERE, row
from .running import ask, packed

LINEAR = {"kind": "layer", "layer": "Linear", "config": {"d_input": 3, "d_output": 2}}
ADAM = {"kind": "optimizer", "optimizer": "Adam", "config": {}, "sizes": [3, 2], "bias": False, "lr": 0.1}


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def linear(bias: bool = True) -> bl.nn.Linear:
    return bl.nn.LinearConfig(d_input=3, d_output=2, bias=bias).init()


def write_pack(
    path: Path, tensors: dict[str, Tensor], ids: dict[str, str], scalars: dict[str, Any] | None = None
) -> None:
    """Let Burn write a burnpack of this content."""
    entries = [{"name": name, "value": packed(it), "id": ids.get(name)} for name, it in tensors.items()]
    answers_of([{"kind": "pack", "tensors": entries, "scalars": scalars or {}, "metadata": {}, "save": str(path)}])


def loaded(path: Path, **options: Any) -> dict[str, Any]:
    """Burn's answer about a Linear that it loads."""
    (answer,) = ask("records", [{**LINEAR, "load": str(path), **options}])
    return answer


@row("Loading a record")
def loading() -> None:
    with folder() as place:
        weights = {"weight": torch.ones(3, 2, dtype=torch.int64), "bias": torch.ones(2)}
        write_pack(place / "kind.bpk", weights, {"weight": "5", "bias": "6"})
        assert "panicked" in loaded(place / "kind.bpk")["refused"]
        with pytest.raises(RecordMismatchError, match="nothing was loaded"):
            bl.record.load(linear(), place / "kind.bpk")


@row("Precision of a recorder")
def precision() -> None:
    with folder() as place:
        model = linear()
        bl.record.save(model, place / "half.bpk", precision=bl.HalfPrecision)
        assert loaded(place / "half.bpk")["tensors"][0]["dtype"] == "F16"
        assert loaded(place / "half.bpk", cast=True)["tensors"][0]["dtype"] == "F32"
        bl.record.load(model, place / "half.bpk")
        assert model.weight.dtype == torch.float32
        bl.record.load(model, place / "half.bpk", dtype="as_saved")
        assert model.weight.dtype == torch.float16


@row("Floats too large for the precision")
def large() -> None:
    with folder() as place:
        model = linear()
        with torch.no_grad():
            model.weight.fill_(1e38)
        bl.record.save(model, place / "large.bpk")
        answers_of([{**LINEAR, "load": str(place / "large.bpk")}])
        half = {"store": "burnpack", "adapter": "half", "save": str(place / "half.bpk")}
        answers_of([{**LINEAR, **half, "load": str(place / "large.bpk")}])
        assert bl.record.open_record(place / "half.bpk").tensors["weight"].isinf().all()
        with pytest.raises(PrecisionError, match="weight"):
            bl.record.save(model, place / "own.bpk", precision=bl.HalfPrecision)
        bl.record.save(model, place / "own.bpk", precision=bl.record.Precision(torch.float16, allow_overflow=True))
        assert bl.record.open_record(place / "own.bpk").tensors["weight"].isinf().all()


@row("Extension of a saved file")
def extension() -> None:
    with folder() as place:
        answers_of([{**LINEAR, "save": str(place / "model.v1")}])
        assert (place / "model.v1").read_bytes().startswith(b"NRUB")
        with pytest.raises(RecordError, match=r"expected a name that ends in one of"):
            bl.record.save(linear(), place / "own.v1")
        assert Path(bl.record.BurnpackRecorder().save(bl.record.Record.of(linear()), place / "own")).name == "own.bpk"


@row("Names that belong to other programs' files (`.pt`, `.pth`, `.ckpt`, `.pkl`, `pytorch_model.bin`, `.index.json`)")
def names_of_others() -> None:
    with folder() as place:
        for name in ("x.pt", "x.pth", "x.ckpt", "x.pkl", "pytorch_model.bin", "x.index.json"):
            answers_of([{**LINEAR, "save": str(place / name)}])
            assert (place / name).exists()
            with pytest.raises(RecordError, match=r"choose a name|index"):
                bl.record.save(linear(), place / f"own-{name}" if not name.startswith("py") else place / name)


@row("Tensors with one id: tied ones, and those of a clone (a target network)")
def one_id() -> None:
    with folder() as place:
        path = place / "networks.bpk"
        (answer,) = answers_of([{"kind": "networks", "trained": True, "save": str(path)}])
        ids = {it["name"]: it["id"] for it in answer["tensors"]}
        assert ids["online.weight"] == ids["target.weight"]
        assert ids["online.bias"] == ids["target.bias"]
        record = bl.record.open_record(path)
        assert record.aliases == {"target.bias": "online.bias"}
        model = Networks()
        assert bl.record.load(model, path).clones == ["target.weight"]
        found = {param.path: str(int(param.id)) for param in params(model)}
        assert found["online.weight"] == ids["online.weight"] != found["target.weight"]
        record["target"].load_into(model.target)
        assert {str(int(param.id)) for param in params(model.target)} == {ids["target.weight"], ids["target.bias"]}


@row("Burnpack: overlaps, bytes behind the tensors, keys twice, sizes that don't fit")
def damaged_pack() -> None:
    with folder() as place:
        path = place / "more.bpk"
        answers_of([{**LINEAR, "save": str(path)}])
        path.write_bytes(path.read_bytes() + b"more")
        assert "refused" not in loaded(path)
        with pytest.raises(RecordFormatError, match="bytes lie behind its last tensor"):
            bl.record.open_record(path)


@row("Checksums")
def checksums() -> None:
    with folder() as place:
        path = place / "flipped.bpk"
        (answer,) = answers_of([{**LINEAR, "save": str(path)}])
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        assert loaded(path)["tensors"] != answer["tensors"]
        own = Path(bl.record.save(linear(), place / "own.safetensors"))
        data = bytearray(own.read_bytes())
        data[-1] ^= 1
        own.write_bytes(data)
        with pytest.raises(RecordFormatError, match="checksum"):
            bl.record.verify(own)


def adam_case(place: Path, **more: Any) -> tuple[dict[str, Any], str]:
    """A case of Adam on a Linear without bias, and the id of its weight."""
    model = linear(bias=False)
    bl.record.save(model, place / "model.bpk")
    return {**ADAM, "module": str(place / "model.bpk"), "grads": [], **more}, str(int(params(model)[0].id))


GRADS = [{"weight": packed(torch.ones(3, 2))}]


@row("Optimizer states without a required part")
def part_of_a_state() -> None:
    with folder() as place:
        case, number = adam_case(place)
        names = {f"{number}.momentum.moment_1": torch.full((3, 2), 9.0)}
        scalars = {f"{number}.momentum.time": 3, f"{number}.__rank": 2}
        write_pack(place / "part.bpk", names, dict.fromkeys(names, number), scalars)
        fresh, from_part = answers_of(
            [{**case, "grads": GRADS}, {**case, "grads": GRADS, "load": str(place / "part.bpk")}]
        )
        assert from_part == fresh
        model = linear(bias=False)
        bl.record.load(model, place / "model.bpk")
        with pytest.raises(RecordMismatchError, match="moment_2"):
            bl.optim.AdamConfig().init().load(place / "part.bpk", module=model)


@row("Optimizer states of parameters that the module lacks")
def orphans() -> None:
    with folder() as place:
        case, _ = adam_case(place)
        number = "77"
        names = {f"{number}.momentum.moment_{it}": torch.ones(3, 2) for it in (1, 2)}
        scalars = {f"{number}.momentum.time": 3, f"{number}.__rank": 2}
        write_pack(place / "other.bpk", names, dict.fromkeys(names, number), scalars)
        saving = {"grads": GRADS, "save_at": 0, "save": str(place / "saved.bpk")}
        answers_of([{**case, **saving, "load": str(place / "other.bpk")}])
        assert len(bl.record.open_record(place / "saved.bpk").tensors) == 2
        model = linear(bias=False)
        bl.record.load(model, place / "model.bpk")
        with pytest.raises(RecordMismatchError, match="prune_orphans"):
            bl.optim.AdamConfig().init().load(place / "other.bpk", module=model)
        optimizer = bl.optim.AdamConfig().init().load(place / "other.bpk", module=model, prune_orphans=True)
        assert not optimizer.into_record().tensors


@row("Scheduler records that don't fit")
def other_schedule() -> None:
    with folder() as place:
        noam = {"kind": "schedule", "config": {"base": {"Noam": {"factor": 1.0, "warmup_steps": 4, "model_size": 64}}}}
        fields = {"initial_lr": 1.0, "min_lr": 0.1, "num_iters": 5}
        cosine = {"kind": "schedule", "config": {"base": {"Cosine": fields}}, "steps": 3}
        path = str(place / "noam.bpk")
        answers_of([{**noam, "steps": 3, "save_at": 2, "save": path}])
        fresh, after = answers_of([cosine, {**cosine, "load": path}])
        assert fresh == after
        with pytest.raises(RecordMismatchError, match="current_iter"):
            bl.record.load(bl.optim.CosineAnnealingConfig(**fields).init(), path)


_SHOWN_BY = {
    # Burn 0.21 alone has these recorders and formats.
    "Integers under the half precision settings": "test_precision integers_that_do_not_fit_are_an_error",
    "Bincode of modules with state beside their tensors": "test_own_records bincode_has_no_place_for_entries",
    "Replacing a file": "test_atomic_save failure_of_any_write_leaves_the_old_file",
    "Bytes behind a bincode record": "burn/test_bincode damaged_and_foreign_files_are_refused_with_the_place",
    "Constants in bincode": "burn/test_bincode damaged_and_foreign_files_are_refused_with_the_place",
    "inf and nan of plain values in JSON": "burn/test_named_formats floats_with_a_place_in_the_tree_come_back",
    "A gzip stream with another behind it": "test_formats streams_that_follow_each_other_are_one",
    # Hostile files, of which Burn takes as much memory as they say.
    "Time and memory for opening a file": "fuzz/test_attacks an_attack_is_refused",
    # Burn has no such things.
    "Quantized tensors in files": "test_torch_file parts_are_tensors_by_name_in_their_own_types",
    "Records of modules": "test_record what_is_in_a_record_is_reached_by_attributes",
    "Plain lists of numbers or texts, and other constants": "test_record constants_are_in_no_file",
    "`into_record` and `load_record` of a class of one's own": (
        "test_own_records everything_that_saves_and_loads_asks_the_class"
    ),
    "Fields that are objects with `into_item` and `from_item`": (
        "test_pytree items_come_back_in_every_format_with_names"
    ),
    'Loading into a map of things (`{"model": model}`)': "test_interface what_a_record_is_not_of_is_refused",
    "State of a PyTorch module beside parameters and buffers": (
        "test_own_records a_fresh_module_gets_the_whole_state_dict"
    ),
    "An override of `load_state_dict` itself": "test_own_records a_fresh_module_gets_the_whole_state_dict",
    "Load mappers": "test_mappers the_record_s_form_is_what_must_fit",
}
for _subject, _place in _SHOWN_BY.items():
    _file, _test = _place.split()
    ELSEWHERE[_subject] = f"tests/record/{_file}.py::test_{_test}"
