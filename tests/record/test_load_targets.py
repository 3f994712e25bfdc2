"""What a load writes to, and what it is written from: every kind of tensor gets its values, or nothing is changed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import ArgumentError, BurnlikeError, RecordError, RecordMismatchError
from burnlike.module import Module, Param, params
from burnlike.record import Record, SafetensorsRecorder, load, save


def holding(**tensors: torch.Tensor) -> Any:
    module = nn.Module()
    for name, tensor in tensors.items():
        module.register_buffer(name, tensor)
    return module


def from_memory(module: nn.Module, record: Record, folder: Path) -> None:
    record.load_into(module)


def from_file(module: nn.Module, record: Record, folder: Path) -> None:
    load(module, SafetensorsRecorder().save(record, folder / "x"))


@pytest.mark.parametrize("way", [from_memory, from_file])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.zeros(1).expand(4), "elements of 'second' share memory, as after `expand`"),
        (torch.zeros(4).to_sparse(), "'second' is torch.sparse_coo"),
    ],
)
def test_what_cannot_be_written_is_refused_while_nothing_is_changed(
    target: torch.Tensor, message: str, way: Any, tmp_path: Path
) -> None:
    module = holding(first=torch.zeros(3), second=target)
    with pytest.raises(RecordError, match=message):
        way(module, Record({"first": torch.ones(3), "second": torch.arange(4.0)}), tmp_path)
    assert not module.first.any()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (torch.ones(3, device="meta"), r"float32 \[3\], without values \(it is on the meta device\)"),
        (torch.ones(3).to_sparse(), "torch.sparse_coo; call to_dense"),
    ],
)
def test_what_cannot_be_read_is_a_mismatch(source: torch.Tensor, message: str) -> None:
    module = holding(first=torch.zeros(3), second=torch.zeros(3))
    record = Record({"first": torch.ones(3), "second": source})
    with pytest.raises(RecordMismatchError, match=message):
        record.load_into(module)
    assert not module.first.any()
    assert list(record.load_into(module, validate=False).applied) == ["first"]


def test_a_record_of_the_module_s_own_tensors_exchanges_them() -> None:
    module = holding(a=torch.zeros(3), b=torch.ones(3), square=torch.arange(4.0).view(2, 2))
    Record({"a": module.b, "b": module.a, "square": module.square.T}).load_into(module)
    assert module.a.tolist() == [1, 1, 1]
    assert module.b.tolist() == [0, 0, 0]
    assert module.square.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize("way", [from_memory, from_file])
@pytest.mark.parametrize("stored", [torch.float32, torch.float64])
def test_tensors_made_in_inference_mode_are_loaded_outside_of_it(stored: torch.dtype, way: Any, tmp_path: Path) -> None:
    with torch.inference_mode():
        frozen = nn.Linear(2, 2)
    module = nn.Sequential(nn.Linear(2, 2), frozen)
    way(module, Record({k: torch.full_like(t, 2, dtype=stored) for k, t in module.state_dict().items()}), tmp_path)
    assert all(bool((param.tensor == 2).all()) for param in params(module))
    assert not module[0].weight.is_inference()


@pytest.mark.parametrize("way", [from_memory, from_file])
def test_views_that_turn_signs_get_their_values(way: Any, tmp_path: Path) -> None:
    base = torch.zeros(3, dtype=torch.complex64)
    module = holding(conjugate=base.conj(), negative=base.clone().conj().imag)
    assert module.conjugate.is_conj()
    assert module.negative.is_neg()
    record = Record({"conjugate": torch.tensor([1 + 2j, 2, 3]), "negative": torch.tensor([1.0, 2, 3])})
    way(module, record, tmp_path)
    assert module.conjugate.tolist() == [1 + 2j, 2, 3]
    assert module.negative.tolist() == [1, 2, 3]


def test_values_are_never_put_on_the_meta_device(tmp_path: Path) -> None:
    path = save(nn.Linear(3, 3), tmp_path / "x")
    with torch.device("meta"):
        module = nn.Linear(3, 3)
        with pytest.raises(ArgumentError, match="'weight' can't have values on the meta device; nothing was loaded"):
            load(module, path)
    with pytest.raises(ArgumentError, match="meta device"):
        load(module, path, device="meta")


@pytest.mark.parametrize("name", ["x.safetensors", "x.mpk.gz", "x.json"])
def test_the_default_device_has_no_part_in_reading_and_writing(name: str, tmp_path: Path) -> None:
    """As after `torch.set_default_device("cuda")`: buffers for bytes stay on the CPU."""
    source, module = nn.Linear(700, 700), nn.Linear(700, 700, dtype=torch.float64)
    with torch.device("meta"):
        path = save(source, tmp_path / name)
        load(module, path)
    assert torch.equal(module.weight, source.weight.double())


class Lazy(Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(3))
        self.second = Param.uninitialized(lambda device: torch.zeros(3, device=device), [3])


@pytest.mark.parametrize("dtype", ["module", "as_saved"])
def test_lazy_parameters_are_never_initialized(dtype: str) -> None:
    module = Lazy()
    Record({"first": torch.ones(3), "second": torch.full((3,), 2.0).double()}).load_into(module, dtype=dtype)
    assert module.second.tolist() == [2, 2, 2]
    assert module.second.dtype == (torch.float32 if dtype == "module" else torch.float64)


@pytest.mark.parametrize(
    ("lazy", "layer", "shape"),
    [
        (lambda: nn.LazyLinear(2), lambda: nn.Linear(3, 2), (4, 3)),
        (lambda: nn.LazyConv2d(2, 3), lambda: nn.Conv2d(3, 2, 3), (1, 3, 5, 5)),
        (lambda: nn.LazyBatchNorm1d(), lambda: nn.BatchNorm1d(3), (4, 3)),
    ],
)
def test_torchs_lazy_modules_get_their_shapes_from_the_record(lazy: Any, layer: Any, shape: tuple[int, ...]) -> None:
    source, target = nn.Sequential(layer()), nn.Sequential(lazy())
    x = torch.randn(shape)
    assert Record.from_module(source).load_into(target).missing == []
    assert torch.equal(target(x), source(x))
    assert type(target[0]) is type(source[0])


def test_a_lazy_module_is_as_it_was_where_the_load_fails() -> None:
    module = nn.Sequential(nn.LazyLinear(2), nn.Linear(2, 2))
    record = Record.from_module(nn.Sequential(nn.Linear(5, 2), nn.Linear(2, 3)))
    with pytest.raises(RecordMismatchError):
        record.load_into(module)
    assert nn.parameter.is_lazy(module[0].weight)
    assert module(torch.ones(1, 7)).shape == (1, 2)


def test_an_error_in_the_middle_says_what_became_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = holding(first=torch.zeros(3))

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("burnlike.record.loading.filling._copy", fail)
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        Record({"first": torch.ones(3)}).load_into(module)
    assert not isinstance(caught.value, BurnlikeError)
    assert caught.value.__notes__ == ["the module is partly loaded: load it again before use"]
