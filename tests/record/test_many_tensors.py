"""Records of many small tensors, as those of deep models and of optimizers are, and of long lists: read back."""

from collections.abc import Callable

import pytest
import torch

import burnlike.record
from burnlike.module import ParamId
from burnlike.record import Record

COUNT = 10_000
ADAM = {"momentum": {"time": "usize", "moment_1": "tensor", "moment_2": "tensor"}}


def of_a_module(count: int = COUNT) -> Record:
    """Parameters and as many running statistics, all zeros, which take next to nothing in a gzipped file."""
    weights = {f"layers.{index}.weight": torch.zeros(2) for index in range(count // 2)}
    means = {f"layers.{index}.mean": torch.zeros(2) for index in range(count // 2)}
    ids = {name: ParamId(index * 7919 + 1) for index, name in enumerate(weights)}
    return Record({**weights, **means}, ids=ids, states=frozenset(means))


def of_an_optimizer(count: int = COUNT) -> Record:
    """States whose layout leaves the ranks out."""
    ids = [str(ParamId(index * 7919 + 1)) for index in range(count // 2)]
    moments = {f"{it}.momentum.moment_{number}": torch.zeros(2) for it in ids for number in (1, 2)}
    times = {f"{it}.momentum.time": 3 for it in ids}
    return Record(moments, {"states": times, "paths": {}}, layout={"$map": {"$state": ADAM}})


@pytest.mark.parametrize(
    "name", ["NamedMpkGzFileRecorder", "JsonGzFileRecorder", "NamedMpkFileRecorder", "BurnpackRecorder"]
)
@pytest.mark.parametrize("make", [of_a_module, of_an_optimizer])
def test_what_was_saved_is_read_however_small_it_is_packed(name: str, make: Callable[[], Record]) -> None:
    record = make()
    recorder = getattr(burnlike.record, name)()
    found = recorder.from_bytes(recorder.to_bytes(record))
    assert found.tensors.keys() == record.tensors.keys()
    assert dict(found.values.get("states", {})) == dict(record.values.get("states", {}))
    assert found.ids == record.ids


def test_long_lists_of_equal_values_are_read_from_gzipped_files() -> None:
    record = Record({"a": torch.zeros(1)}, {"history": [{"step": 0, "loss": 1.0, "note": None}] * 20_000})
    for recorder in (burnlike.record.NamedMpkGzFileRecorder(), burnlike.record.JsonGzFileRecorder()):
        assert recorder.from_bytes(recorder.to_bytes(record)).values == record.values
