"""What formats of Burn's have no word for is known again: which tensors are states, and whose record it is."""

from pathlib import Path

import pytest
import torch

import burnlike as bl
import burnlike.record
from burnlike.errors import RecordFormatError
from burnlike.module import ParamId
from burnlike.record import BurnpackRecorder, PrettyJsonFileRecorder, Record
from tests.record.test_module_layout import MODULES

GOLDEN = Path(__file__).parents[2] / "golden" / "v0.22"
FORMATS = ["NamedMpkFileRecorder", "PrettyJsonFileRecorder", "JsonGzFileRecorder", "BurnpackRecorder"]
TENSORS = {
    "norm.running_mean": torch.zeros(2),
    "count": torch.tensor([1]),
    "weight": torch.zeros(2),
    "mask": torch.ones(1),
}
IDS = {name: ParamId(index) for index, name in enumerate(["norm.running_mean", "count", "weight"])}


@pytest.mark.parametrize("name", MODULES)
def test_modules_with_states_are_saved_as_burn_saves_them(name: str, tmp_path: Path) -> None:
    path = GOLDEN / f"{name}.bpk"
    module = MODULES[name]()
    bl.record.load(module, path, dtype="as_saved")
    assert Path(bl.record.save(module, tmp_path / "saved.bpk")).read_bytes() == path.read_bytes()


def test_burns_files_tell_statistics_and_whole_numbers() -> None:
    assert bl.record.open_record(GOLDEN / "tree.bpk").states == {"norm.running_mean", "norm.running_var"}
    assert bl.record.open_record(GOLDEN.parent / "v0.21" / "kinds-full.mpk").states == {"i", "b"}


@pytest.mark.parametrize("states", [(), ("mask",), ("norm.running_mean", "count"), ("weight", "count", "mask")])
@pytest.mark.parametrize("name", FORMATS)
def test_states_come_back_even_if_the_names_say_otherwise(name: str, states: tuple[str, ...]) -> None:
    recorder = getattr(burnlike.record, name)()
    record = Record(TENSORS, ids=IDS, states=states)
    assert set(recorder.from_bytes(recorder.to_bytes(record)).states) == set(states)


def test_states_that_are_not_there_are_refused() -> None:
    data = PrettyJsonFileRecorder().to_bytes(Record(TENSORS, ids=IDS, states=["mask"]))
    with pytest.raises(RecordFormatError, match="states"):
        PrettyJsonFileRecorder().from_bytes(data.replace(b'"mask"\n', b'"task"\n'))
    data = BurnpackRecorder().to_bytes(Record(TENSORS, ids=IDS, states=["mask"]))
    with pytest.raises(RecordFormatError, match="states"):
        BurnpackRecorder().from_bytes(data.replace(b'["mask"]', b'["task"]'))


@pytest.mark.parametrize("name", FORMATS)
def test_optimizers_without_states_stay_records_of_optimizers(name: str) -> None:
    record = Record(values={"states": {}, "paths": {str(ParamId(5)): "layer.weight"}})
    recorder = getattr(burnlike.record, name)()
    once = recorder.from_bytes(recorder.to_bytes(record))
    assert once.values == recorder.from_bytes(recorder.to_bytes(once)).values == record.values
