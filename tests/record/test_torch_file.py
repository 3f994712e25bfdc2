"""Files of torch.save, of transformers, and tensors made of others such as torchao's: read without running anything."""

import argparse
import copy
import io
import os
import warnings
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_

from burnlike import HalfPrecision
from burnlike.errors import ArgumentError, DTypeError, RecordError, RecordFormatError, RecordMismatchError
from burnlike.optim import AdamWConfig
from burnlike.record import BFloat16Precision, DcpRecorder, Record, SafetensorsRecorder, load, open_record, save
from burnlike.train import TrainingState

TENSORS = {
    "half": torch.randn(3, 5).half(),
    "bfloat16": torch.randn(4).bfloat16(),
    "double": torch.randn(2, dtype=torch.float64),
    "complex": torch.randn(2, dtype=torch.complex64),
    "float8": torch.randn(4).to(torch.float8_e4m3fn),
    "uint16": torch.tensor([1, 65535], dtype=torch.uint16),
    "bool": torch.tensor([True, False]),
    "scalar": torch.tensor(3),
    "empty": torch.zeros(0, 4),
    "transposed": torch.randn(3, 4, 5).permute(2, 0, 1),
    "every_second": torch.arange(10)[3:9:2],
    "parameter": nn.Parameter(torch.ones(2)),
}
BOTH = pytest.mark.parametrize("zipped", [True, False])


def saved(content: Any, path: Path, zipped: bool = True) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    return path


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist()


@BOTH
def test_tensors_of_every_type_and_stride_are_read(zipped: bool, tmp_path: Path) -> None:
    record = open_record(saved(TENSORS, tmp_path / "x.pt", zipped))
    assert list(record.tensors) == list(TENSORS)
    for name, expected in TENSORS.items():
        found = record.tensors[name]
        assert (found.dtype, found.shape, bits(found)) == (expected.dtype, expected.shape, bits(expected)), name


@BOTH
def test_nested_maps_and_plain_values_are_read(zipped: bool, tmp_path: Path) -> None:
    model = nn.Linear(2, 3)
    content = {"model": model.state_dict(), "epoch": 3, "lr": [0.1, None], "size": torch.Size([2]), 7: {"text": "é"}}
    path = saved(content, tmp_path / "x.pt", zipped)
    record = open_record(path)
    assert list(record.tensors) == ["model.weight", "model.bias"]
    assert record.values == {"epoch": 3, "lr": [0.1, None], "size": [2], "7": {"text": "é"}}
    target = nn.Linear(2, 3)
    load(target, path, top_level_key="model")
    assert torch.equal(target.weight, model.weight)


@BOTH
def test_tied_tensors_are_aliases(zipped: bool, tmp_path: Path) -> None:
    weight = torch.randn(3)
    record = open_record(saved({"a": weight, "b": weight, "c": weight[:2]}, tmp_path / "x.pt", zipped))
    assert record.aliases == {"b": "a"}
    assert list(record.tensors) == ["a", "c"]


@BOTH
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_weights_of_a_whole_module_are_read(zipped: bool, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[1].register_buffer("passing", torch.ones(1), persistent=False)
    record = open_record(saved(model, tmp_path / "x.pt", zipped))
    assert list(record.tensors) == list(model.state_dict())
    assert torch.equal(record.tensors["0.weight"], model.state_dict()["0.weight"])


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch evil",)


@BOTH
@pytest.mark.parametrize("content", [Evil(), {"a": Evil()}, {"a": [argparse.Namespace(b=1)]}, {"a": b"bytes"}])
def test_what_needs_code_is_refused_and_never_run(
    content: Any, zipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecordFormatError, match="only code could make"):
        open_record(saved(content, tmp_path / "x.pt", zipped))
    assert not Path("evil").exists()


@BOTH
@pytest.mark.parametrize(("content", "kind"), [([1], "list"), (torch.ones(2), "Tensor"), (3, "int")])
def test_what_is_no_map_is_refused(content: Any, kind: str, zipped: bool, tmp_path: Path) -> None:
    with pytest.raises(RecordFormatError, match=f"expected a map of tensors, got {kind}. Save a"):
        open_record(saved(content, tmp_path / "x.pt", zipped))


def test_sets_are_read_as_lists(tmp_path: Path) -> None:
    torch.save({"a": {1}, "b": frozenset({2, 3}), "c": torch.ones(2)}, tmp_path / "x.pt", pickle_protocol=4)
    record = open_record(tmp_path / "x.pt")
    assert record.values == {"a": [1], "b": [2, 3]}
    assert record.tensors["c"].tolist() == [1, 1]


@BOTH
def test_a_part_is_read_although_another_needs_code(zipped: bool, tmp_path: Path) -> None:
    path = saved({"state_dict": {"a": torch.ones(2)}, "arguments": argparse.Namespace(b=1)}, tmp_path / "x", zipped)
    assert open_record(path, top_level_key="state_dict").tensors["a"].tolist() == [1, 1]
    with pytest.raises(ArgumentError, match=r"did you mean 'state_dict'\?"):
        open_record(path, top_level_key="statedict")


def test_a_type_that_records_lack_is_refused_and_hinders_no_other_part(tmp_path: Path) -> None:
    path = saved({"a": {"b": torch.ones(2, dtype=torch.complex128)}, "model": {"c": torch.ones(2)}}, tmp_path / "x.pt")
    with pytest.raises(RecordFormatError, match=r"'a\.b' is in a ComplexDoubleStorage.*view_as_real"):
        open_record(path)
    assert open_record(path, top_level_key="model").tensors["c"].tolist() == [1, 1]


def test_maps_with_keys_of_other_kinds_are_refused_and_hinder_no_other_part(tmp_path: Path) -> None:
    path = saved({"a": {(1, 2): 3}, "b": {2**100: 3}, "model": {"c": torch.ones(2), 7: 1}}, tmp_path / "x.pt")
    with pytest.raises(RecordFormatError, match=r"a key of 'a' is of the type tuple"):
        open_record(path)
    with pytest.raises(RecordFormatError, match=r"a key of '' is of the type int"):
        open_record(path, top_level_key="b")
    assert open_record(path, top_level_key="model").values == {"7": 1}


def test_two_parts_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordFormatError, match=r"two values with the name 'a\.1'"):
        open_record(saved({"a": {1: 2, "1": 3}}, tmp_path / "x.pt"))


def test_expanded_tensors_take_no_memory_that_the_file_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(RecordFormatError, match="more bytes than its storage"):
        open_record(saved({"a": torch.ones(1).expand(10**9)}, tmp_path / "x.pt"))


def test_notes_about_modules_that_refer_to_themselves_a_million_times_are_refused(tmp_path: Path) -> None:
    shared = {f"{index}.{'a' * 50}": {"version": 2} for index in range(300)}

    def state() -> Any:
        found: Any = OrderedDict(a=1)
        found._metadata = shared
        return found

    path = saved({f"{index}": state() for index in range(3000)}, tmp_path / "x.pt")
    with pytest.raises(RecordFormatError, match=r"nested too deeply or refers to itself|far more"):
        open_record(path)


@pytest.mark.slow
def test_lists_that_refer_to_themselves_a_million_times_are_refused(tmp_path: Path) -> None:
    content: Any = {"a": 1}
    for _ in range(30):
        content = {"a": content, "b": content}
    with pytest.raises(RecordFormatError, match=r"nested too deeply or refers to itself|far more"):
        open_record(saved(content, tmp_path / "x.pt"))


@BOTH
def test_files_cut_anywhere_or_changed_are_refused(zipped: bool, tmp_path: Path) -> None:
    data = saved({"a": torch.arange(5), "b": 3}, tmp_path / "x.pt", zipped).read_bytes()
    for end in range(0, len(data), 7):
        (tmp_path / "x.pt").write_bytes(data[:end])
        with pytest.raises(RecordError):
            open_record(tmp_path / "x.pt")
    for place in range(0, len(data), 3):
        (tmp_path / "x.pt").write_bytes(data[:place] + bytes([data[place] ^ 0x5A]) + data[place + 1 :])
        try:
            record = open_record(tmp_path / "x.pt")
            [record.tensors[name] for name in record.tensors]
        except RecordError:
            pass


def test_other_archives_and_pickles_are_refused(tmp_path: Path) -> None:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr("other.txt", "text")
    (tmp_path / "x.zip").write_bytes(memory.getvalue())
    with pytest.raises(RecordFormatError, match=r"without data\.pkl"):
        open_record(tmp_path / "x.zip")
    (tmp_path / "x.pkl").write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(RecordFormatError, match=r"torch\.save did not write"):
        open_record(tmp_path / "x.pkl")


def test_top_level_key_is_for_files_of_torch(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="this is safetensors"):
        open_record(save(nn.Linear(1, 1), tmp_path / "x"), top_level_key="model")


SMALL = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2}
CONFIGS = {
    "llama": lambda tied: transformers.LlamaConfig(
        **SMALL,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        tie_word_embeddings=tied,
    ),
    "gpt2": lambda tied: transformers.GPT2Config(
        **SMALL, n_embd=32, n_layer=2, n_head=4, n_positions=16, tie_word_embeddings=tied
    ),
}


def loaded(folder: Path, dtype: torch.dtype) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("shard_bytes", [None, 10**9, 20_000], ids=["plain", "fits one file", "divided"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("name", CONFIGS)
def test_from_pretrained_loads_the_same_as_of_its_own_files(
    name: str, tied: bool, dtype: torch.dtype, shard_bytes: int | None, tmp_path: Path
) -> None:
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name](tied))
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    model.config.save_pretrained(ours)
    recorder = SafetensorsRecorder(BFloat16Precision if dtype == torch.bfloat16 else None, shard_bytes)
    recorder.save(Record.from_module(model), ours / "model.safetensors")
    model.to(dtype).save_pretrained(theirs)
    assert len(list(ours.glob("*.safetensors"))) == 1 or shard_bytes == 20_000

    tokens = torch.arange(8)[None]
    found, expected = loaded(ours, dtype), loaded(theirs, dtype)
    assert torch.equal(found(tokens).logits, expected(tokens).logits)
    assert (found.get_input_embeddings().weight is found.get_output_embeddings().weight) == tied


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_files_of_transformers_load(tmp_path: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS["gpt2"](True))
    model.save_pretrained(tmp_path)
    other = transformers.AutoModelForCausalLM.from_config(CONFIGS["gpt2"](True))
    SafetensorsRecorder().load(tmp_path / "model.safetensors").load_into(other)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


QUANTIZED: list[Any] = [Int8WeightOnlyConfig(), IntxWeightOnlyConfig(weight_dtype=torch.int4), Float8WeightOnlyConfig()]
each_config = pytest.mark.parametrize("config", QUANTIZED, ids=lambda it: type(it).__name__)


def quantized(config: Any, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16, bias=False))
    quantize_(model, config)
    return model


def outputs(model: nn.Module) -> Tensor:
    return model(torch.linspace(-1, 1, 64).reshape(2, 32))


@each_config
@pytest.mark.parametrize("extension", ["safetensors", "mpk", "bpk"])
def test_parts_are_tensors_by_name_in_their_own_types(config: Any, extension: str, tmp_path: Path) -> None:
    model, other = quantized(config, 1), quantized(config, 2)
    if extension != "safetensors" and isinstance(config, Float8WeightOnlyConfig):
        with pytest.raises(DTypeError, match=r"'0\.weight\.qdata' is F8_E4M3, which Burn's formats can't hold"):
            save(model, tmp_path / f"m.{extension}")
        return
    path = save(model, tmp_path / f"m.{extension}", precision=HalfPrecision)
    names = set(open_record(path).tensors)
    assert {"0.bias", "0.weight.qdata", "0.weight.scale", "2.weight.qdata", "2.weight.scale"} <= names
    weight = other[0].weight
    assert not torch.equal(outputs(other), outputs(model))
    report = load(other, path)
    assert {*report.applied} == names
    assert other[0].weight is weight
    other[0].bias, model[0].bias = None, None  # which are float16 in the file
    assert torch.equal(outputs(other), outputs(model))


def test_a_record_in_memory_and_a_checkpoint_have_them_too(tmp_path: Path) -> None:
    model, other = quantized(QUANTIZED[0], 1), quantized(QUANTIZED[0], 2)
    Record.of(model).load_into(other)
    assert torch.equal(outputs(other), outputs(model))
    again = quantized(QUANTIZED[0], 3)
    TrainingState(model=model, optimizer=AdamWConfig().init()).save(tmp_path / "state")
    TrainingState(model=again, optimizer=AdamWConfig().init()).load(tmp_path / "state")
    assert torch.equal(outputs(again), outputs(model))


def test_what_was_made_otherwise_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    path = save(quantized(QUANTIZED[0], 1), tmp_path / "m.safetensors")
    plain = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16, bias=False))
    with pytest.raises(RecordMismatchError, match=r"0\.weight"):
        load(plain, path)
    other = quantized(QUANTIZED[1], 2)
    before = outputs(other)
    with pytest.raises(RecordMismatchError, match="expected a part of a IntxUnpackedToInt8Tensor, got one of a Int8"):
        load(other, path, strict=False)
    same = quantized(QUANTIZED[0], 2)
    same[0].weight.scale = same[0].weight.scale.double()
    with pytest.raises(RecordMismatchError, match=r"0\.weight\.scale: expected float64, got float32"):
        load(same, path)
    assert torch.equal(outputs(other), before)


def test_parts_on_the_meta_device_are_refused(tmp_path: Path) -> None:
    model = quantized(QUANTIZED[0], 1)
    path = save(model, tmp_path / "m.safetensors")
    with pytest.raises(RecordError, match=r"'0\.weight' is a Int8Tensor on the meta device"):
        load(copy.deepcopy(model).to("meta"), path)


@pytest.mark.parametrize("kind", ["pt", "dcp"])
def test_a_damaged_tensor_leaves_the_whole_module_as_it_was(kind: str, tmp_path: Path) -> None:
    net = nn.Sequential(*[nn.Linear(30, 30) for _ in range(5)])
    path = tmp_path / f"net.{kind}"
    if kind == "pt":
        torch.save(net.state_dict(), path)
    else:
        DcpRecorder().save(Record.of(net), path)
    damaged = path if kind == "pt" else next(path.glob("*.distcp"))
    data = damaged.read_bytes()
    last = net[4].weight.detach().numpy().tobytes()
    at = data.index(last)
    damaged.write_bytes(data[:at] + bytes(len(last)) + data[at + len(last) :])
    module = nn.Sequential(*[nn.Linear(30, 30) for _ in range(5)])
    before = copy.deepcopy(module.state_dict())
    with pytest.raises(RecordFormatError, match="CRC-32 differs"):
        load(module, path)
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert load(module[:4], path, filter=r"[0-3]\..*").applied
