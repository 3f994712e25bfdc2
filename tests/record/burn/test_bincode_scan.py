"""What is found in bincode files without their layouts."""

import json
from pathlib import Path

import pytest

from burnlike.errors import RecordFormatError
from burnlike.record.burn.bincode import BIN, scan
from burnlike.record.bytes.source import BytesSource, FileSource
from burnlike.record.formats import StoredTensor
from tests.golden.layouts import layout_for

FOLDER = Path(__file__).parents[2] / "golden" / "v0.21"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.bin")), ids=lambda path: path.name)
def test_all_tensors_of_burns_files_are_found(path: Path) -> None:
    values = json.loads((FOLDER / f"{path.stem.rpartition('-')[0]}.values.json").read_text())
    known = BIN.read(FileSource(path), layout_for(values))
    found = scan(FileSource(path))
    places = [
        [(it.dtype, it.shape, it.start) for it in outline.entries.values() if isinstance(it, StoredTensor)]
        for outline in (found, known)
    ]
    assert places[0] == places[1]
    assert [*found.ids.values()] == [*known.ids.values()]
    assert found.metadata == known.metadata


def test_names_are_numbers_and_in_states_begin_with_the_id() -> None:
    assert list(scan(FileSource(FOLDER / "linear-full.bin")).entries) == ["?0", "?1"]
    states = scan(FileSource(FOLDER / "optim_adam-full.bin")).entries
    ids = {name.partition(".")[0] for name in states}
    assert ids == {"4j82optb8hjt4", "aq4ro62333pgc"}
    assert {name.partition(".")[2] for name in states} == {"?0", "?1"}


def test_damaged_files_give_less_and_never_fail() -> None:
    data = (FOLDER / "tree-full.bin").read_bytes()
    for length in range(140, len(data), 3):
        assert len(scan(BytesSource(data[:length])).entries) <= 27
        changed = bytearray(data)
        changed[length] ^= 0xFF
        scan(BytesSource(changed))


def test_other_files_are_refused() -> None:
    with pytest.raises(RecordFormatError, match="expected the texts"):
        scan(BytesSource(b"\xff" * 100))
