"""Records of many small tensors, as those of deep models and of optimizers are: read back, in about linear time."""

import gc
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import burnlike.record
from burnlike.module import ParamId
from burnlike.record import FileRecorder, Record

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


def seconds(recorder: FileRecorder, record: Record) -> float:
    """The quickest of three saves, without the garbage collector, which looks at all that other tests have left."""
    gc.collect()
    gc.disable()
    try:
        times = []
        for _ in range(3):
            begin = time.process_time()
            recorder.to_bytes(record)
            times.append(time.process_time() - begin)
        return min(times)
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SafetensorsRecorder", "NamedMpkFileRecorder", "BinFileRecorder", "BurnpackRecorder"])
@pytest.mark.parametrize("make", [of_a_module, of_an_optimizer])
def test_eight_times_the_tensors_take_far_less_than_64_times_the_time(name: str, make: Callable[[int], Record]) -> None:
    recorder, few, many = getattr(burnlike.record, name)(), make(COUNT // 8), make(COUNT)
    if make is of_a_module and name == "BinFileRecorder":
        layout = {"layers": {"$vec": {"weight": "param", "mean": "tensor"}}}
        few, many = replace(few, layout=layout), replace(many, layout=layout)
    assert seconds(recorder, many) < 24 * seconds(recorder, few) + 0.1
