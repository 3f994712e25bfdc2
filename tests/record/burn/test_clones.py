"""One id with two values: Burn's clones of a module (a target network, an average) keep its ids."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import burnlike as bl
from burnlike.cli.main import main
from burnlike.errors import RecordFormatError
from burnlike.module import Module, ParamId, params

OLDER = Path(__file__).parents[2] / "golden" / "older"


class Networks(Module):
    def __init__(self) -> None:
        super().__init__()
        self.online = bl.nn.LinearConfig(d_input=3, d_output=2).init()
        self.target = bl.nn.LinearConfig(d_input=3, d_output=2).init()


def entries() -> list[dict[str, Any]]:
    return json.loads((OLDER / "target_net.values.json").read_text())


def values_of(entry: dict[str, Any]) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(entry["hex"]), dtype=torch.float32).reshape(entry["shape"])


def test_a_target_network_is_loaded_and_gets_ids_of_its_own() -> None:
    model = Networks()
    before = {param.path: param.id for param in params(model)}
    report = bl.record.load(model, OLDER / "target_net.bpk")
    for entry in entries():
        torch.testing.assert_close(model.get_parameter(entry["path"]).data, values_of(entry), rtol=0, atol=0)
    ids = {param.path: param.id for param in params(model)}
    given = {entry["path"]: ParamId.parse(entry["id"]) for entry in entries()}
    assert {path: ids[path] for path in ("online.weight", "online.bias")} == {
        path: given[path] for path in ("online.weight", "online.bias")
    }
    assert ids["target.weight"] == before["target.weight"]
    assert report.clones == ["target.weight"]
    assert "with an id of its own, as the record's is that of another tensor: target.weight" in str(report)


def test_each_network_is_loaded_alone_with_its_ids() -> None:
    record = bl.record.open_record(OLDER / "target_net.bpk")
    for name in ("online", "target"):
        model = bl.nn.LinearConfig(d_input=3, d_output=2).init()
        report = record[name].load_into(model)
        ids = {entry["path"]: entry["id"] for entry in entries()}
        assert {f"{name}.{param.path}": str(param.id) for param in params(model)}.items() <= ids.items()
        assert not report.clones


@pytest.mark.parametrize("through", ["mpk", "json.gz", "safetensors"])
def test_it_is_written_again_byte_for_byte_through_every_format(through: str, tmp_path: Path) -> None:
    source = OLDER / "target_net.bpk"
    record = bl.record.open_record(bl.record.save(bl.record.open_record(source), tmp_path / f"x.{through}"))
    assert Path(bl.record.save(record, tmp_path / "again.bpk")).read_bytes() == source.read_bytes()


def test_a_clone_of_a_lazy_parameter_in_messagepack_comes_back(tmp_path: Path) -> None:
    source = OLDER / "v0.21" / "tree-full.mpk"
    record = bl.record.open_record(source)
    assert record.values == {"$ids": {"tied.weight": str(record.ids["lin.weight"])}}
    assert not record.tensors["tied.weight"].equal(record.tensors["lin.weight"])
    assert Path(bl.record.save(record, tmp_path / "again.mpk")).read_bytes() == source.read_bytes()


def test_inspect_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(OLDER / "target_net.bpk")]) == 0
    text = capsys.readouterr().out
    assert "note: 1 tensors have the id of another, with other values, as clones in Burn do: target.weight" in text
    assert text.count("bqts6j7ndjsqq") == 2


def test_damaged_ids_of_clones_are_refused() -> None:
    record = bl.record.Record({"a": torch.ones(1)}, {"$ids": {"a": "no id"}})
    with pytest.raises(RecordFormatError, match="no map from names to ids"):
        bl.record.BurnpackRecorder().to_bytes(record)
