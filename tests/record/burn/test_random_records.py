"""Random records come back from formats with names, and damaged files are refused."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from burnlike.errors import RecordError
from burnlike.record import (
    FileRecorder,
    JsonGzFileRecorder,
    NamedMpkFileRecorder,
    PrettyJsonFileRecorder,
    Record,
    recorder_for,
)

from .samples import GOLDEN, VALUES, assert_same, goldens, optimizer_records, records, unpacked

each_recorder = pytest.mark.parametrize(
    "recorder", [NamedMpkFileRecorder(), PrettyJsonFileRecorder(), JsonGzFileRecorder()]
)
_FILES = [
    name
    for name in goldens(".mpk", ".json", ".mpk.gz", ".json.gz")
    if name.startswith(("two", "kinds", "optim_adamw-", "lr_composed"))
]


@each_recorder
@settings(derandomize=True, max_examples=30, deadline=None)
@given(record=records())
def test_random_records_come_back(recorder: FileRecorder, record: Record) -> None:
    data = recorder.to_bytes(record)
    found = recorder.from_bytes(data)
    assert_same(found, record)
    assert unpacked(recorder.to_bytes(found)) == unpacked(data)


@each_recorder
@settings(derandomize=True, max_examples=30, deadline=None)
@given(record=optimizer_records())
def test_random_optimizer_records_come_back(recorder: FileRecorder, record: Record) -> None:
    found = recorder.from_bytes(recorder.to_bytes(record))
    assert_same(found, record)


@each_recorder
@settings(derandomize=True, max_examples=30, deadline=None)
@given(values=VALUES)
def test_values_beside_tensors_come_back(recorder: FileRecorder, values: dict[str, Any]) -> None:
    record = Record({"w": torch.ones(1)}, values)
    assert_same(recorder.from_bytes(recorder.to_bytes(record)), record)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_files_are_refused_or_read(data: st.DataObject) -> None:
    """Never another error; whatever is read can be asked for its tensors."""
    name = data.draw(st.sampled_from(_FILES))
    recorder = recorder_for(name)
    content = bytearray((GOLDEN / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "double"])):
            case "flip":
                content[place] = data.draw(st.integers(0, 255))
            case "cut":
                del content[place : place + data.draw(st.integers(1, 20))]
            case "insert":
                content[place:place] = data.draw(st.binary(min_size=1, max_size=10))
            case "double":
                content[place:place] = content[place : place + 40]
        content = content or bytearray(b"{")
    try:
        record = recorder.from_bytes(bytes(content))
        for tensor in record.tensors.values():
            assert tensor.numel() >= 0
    except RecordError:
        pass
