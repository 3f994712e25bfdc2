"""Every place that has to know an element type knows all of them: a new row of the table fails here by its name."""

import json
import subprocess
import sys
import zipfile
from typing import Any, get_args

import pytest
import safetensors.torch
import torch
from torch import nn

from burnlike._dtypes import DTYPES, DtypeInfo, FloatName, other_name
from burnlike.backend import Cpu
from burnlike.cli.record_options import precision_of
from burnlike.errors import DTypeError
from burnlike.ops import rms_norm
from burnlike.record import (
    BinBytesRecorder,
    BurnpackRecorder,
    FileRecorder,
    NamedMpkBytesRecorder,
    Precision,
    PrettyJsonFileRecorder,
    Record,
    SafetensorsRecorder,
    layout_of,
    open_record,
)
from burnlike.record.precision import kind_of
from burnlike.tensor import Bool, DType, Float, FloatDType, Int, IntDType, Tensor

BURN_RECORDERS = (BinBytesRecorder, BurnpackRecorder, NamedMpkBytesRecorder, PrettyJsonFileRecorder)


def rows(*, of_torch: bool = True, **wanted: object) -> Any:
    """The types with these attributes, of which torch has one or not."""
    chosen = [
        it
        for it in DTYPES
        if bool(it.torch) == of_torch and all(getattr(it, key) == value for key, value in wanted.items())
    ]
    return pytest.mark.parametrize("element", chosen, ids=[it.record for it in chosen])


def ones(element: DtypeInfo) -> torch.Tensor:
    return torch.ones(4).to(getattr(torch, element.torch))


class Holder(nn.Module):
    """A module whose only tensor is a buffer."""

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("values", values)


@rows()
def test_torch_has_it(element: DtypeInfo) -> None:
    dtype = getattr(torch, element.torch)
    assert (dtype.itemsize * 8, kind_of(dtype)) == (element.bits, element.kind)
    if element.kind == "float":
        assert bool(torch.tensor(float("inf")).to(dtype).float().isinf()) == element.has_inf


@rows()
def test_safetensors_calls_it_so(element: DtypeInfo) -> None:
    written = safetensors.torch.save({"values": ones(element)})
    header = json.loads(written[8 : 8 + int.from_bytes(written[:8], "little")])
    assert header["values"]["dtype"] == element.record
    read = SafetensorsRecorder().from_bytes(written).tensors["values"]
    assert torch.equal(read.view(torch.uint8), ones(element).view(torch.uint8))


@rows(of_torch=False)
def test_a_type_that_torch_lacks_has_a_size_only(element: DtypeInfo) -> None:
    assert element == DtypeInfo(element.record, element.bits, "float", has_inf=False)


@rows()
def test_files_of_torch_save_hold_it(element: DtypeInfo, tmp_path: Any) -> None:
    path = tmp_path / "values.pt"
    torch.save({"values": ones(element)}, path)
    assert open_record(path).tensors["values"].dtype == ones(element).dtype
    pickled = zipfile.ZipFile(path).read("values/data.pkl")
    assert (element.storage or "UntypedStorage").encode() in pickled
    assert (element.torch.encode() in pickled) == (not element.storage)


@rows()
def test_it_is_converted_to_where_it_has_a_short_name(element: DtypeInfo) -> None:
    dtype = getattr(torch, element.torch)
    if element.short:
        assert (other_name(element.short), other_name(element.torch)) == (element.torch, element.short)
        option = {"float": "precision", "int": "int"}[element.kind]
        for name in (element.short, element.torch):
            given = {"precision": None, "int": None, "keep": [], "allow_overflow": False} | {option: name}
            assert getattr(precision_of(type("Arguments", (), given)), element.kind) == dtype  # type: ignore[arg-type]
    else:
        for field in ("float", "int"):
            with pytest.raises(DTypeError, match=f"Precision.{field}: expected one of"):
                Precision(**{"float": None, field: dtype})


@rows(in_burn=True)
@pytest.mark.parametrize("recorder", BURN_RECORDERS)
def test_files_of_burn_hold_it(element: DtypeInfo, recorder: type[FileRecorder]) -> None:
    module = Holder(ones(element))
    written = recorder().to_bytes(Record.from_module(module))
    read = recorder().from_bytes(written, layout_of(module)).tensors["values"]
    assert torch.equal(read, ones(element))
    assert read.dtype == ones(element).dtype


@rows(in_burn=False)
@pytest.mark.parametrize("recorder", BURN_RECORDERS)
def test_files_of_burn_refuse_it(element: DtypeInfo, recorder: type[FileRecorder]) -> None:
    with pytest.raises(DTypeError, match=f"is {element.record}, which Burn's formats can't hold"):
        recorder().to_bytes(Record.from_module(Holder(ones(element))))


@rows()
def test_typed_tensors_hold_those_of_burn(element: DtypeInfo) -> None:
    dtype, name = getattr(torch, element.torch), element.record
    members = {kind.__name__: name in kind.__members__ for kind in (DType, FloatDType, IntDType)}
    kinds = {"DType": True, "FloatDType": element.kind == "float", "IntDType": element.kind == "int"}
    assert members == (kinds if element.in_burn else dict.fromkeys(kinds, False))
    if element.in_burn:
        assert DType[name].value == dtype
        kind = {"float": Float, "int": Int, "bool": Bool}[element.kind]
        tensor = Tensor.from_data([0, 1], Cpu(), kind, dtype=element.short or "bool")
        assert tensor.dtype == dtype
        assert tensor.to_data().to_vec() == [0, 1]


@rows(kind="float")
def test_native_ops_compute_with_it_or_refuse_it(element: DtypeInfo) -> None:
    if element.native is not None:
        assert rms_norm(ones(element), ones(element)).dtype == ones(element).dtype
    else:
        with pytest.raises(DTypeError, match="rms_norm: expected x of dtype"):
            rms_norm(ones(element), ones(element))


def test_configs_name_the_floats_of_burn() -> None:
    assert sorted(get_args(FloatName)) == sorted(it.torch for it in DTYPES if it.in_burn and it.kind == "float")


def test_the_table_imports_no_torch() -> None:
    code = "import sys, burnlike._dtypes, burnlike.record.formats; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
