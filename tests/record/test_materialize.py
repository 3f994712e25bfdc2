"""Building without initializing: the module equals the saved one, nothing random or slow has run."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import RecordError, RecordMismatchError
from burnlike.module import params
from burnlike.nn import DecoderLmConfig
from burnlike.record import BFloat16Precision, Record, init_from, save

CONFIG = DecoderLmConfig(vocab_size=11, max_sequence_length=8, d_model=8, n_layers=2, n_heads=2, d_ff=16)


def test_model_is_the_saved_one(tmp_path: Path) -> None:
    model = CONFIG.init()
    path = save(model, tmp_path / "x")
    tokens = torch.arange(8).unsqueeze(0)
    for found in (init_from(CONFIG, path), CONFIG.init_from(path), CONFIG.init_from(Record.from_module(model))):
        assert torch.equal(found(tokens), model(tokens))
        assert [param.id for param in params(found)] == [param.id for param in params(model)]
        assert all(not buffer.is_meta for buffer in found.buffers())
        found(tokens).sum().backward()


def test_saved_in_half_it_is_built_in_its_own_type(tmp_path: Path) -> None:
    model = CONFIG.init()
    found = init_from(CONFIG, save(model, tmp_path / "x", BFloat16Precision))
    for param, saved in zip(params(found), params(model), strict=True):
        assert param.tensor.dtype == torch.float32
        assert torch.equal(param.tensor, saved.tensor.to(torch.bfloat16).float())


def test_no_initializer_runs_and_no_random_number_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(nn.Sequential(nn.Linear(4, 4), nn.Embedding(3, 4)), tmp_path / "x")
    model_path = save(CONFIG.init(), tmp_path / "model")

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("an initializer ran")

    for name in ("uniform_", "normal_", "fill_", "zero_"):
        original = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor,
            name,
            lambda self, *args, _original=original, **rest: _original(self, *args, **rest) if self.is_meta else fail(),
        )
    before = torch.get_rng_state()
    init_from(lambda: nn.Sequential(nn.Linear(4, 4), nn.Embedding(3, 4)), path)
    init_from(CONFIG, model_path)
    assert torch.equal(torch.get_rng_state(), before)


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("table", torch.arange(3.0), persistent=False)


class ResettableTable(Table):
    def reset_non_persistent_buffers(self, device: torch.device) -> None:
        self.table = torch.arange(3.0, device=device)


class Attribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.table = torch.arange(3.0)


class ForgetfulTable(Table):
    def reset_non_persistent_buffers(self, device: torch.device) -> None:
        pass


def test_non_persistent_buffers_are_computed_by_their_module(tmp_path: Path) -> None:
    path = save(nn.Sequential(ResettableTable()), tmp_path / "x")
    found = init_from(lambda: nn.Sequential(ResettableTable()), path)
    assert found[0].table.tolist() == [0, 1, 2]


@pytest.mark.parametrize("make", [Table, Attribute, ForgetfulTable])
def test_tensor_left_without_a_value_is_an_error(make: type[nn.Module], tmp_path: Path) -> None:
    path = save(nn.Sequential(make()), tmp_path / "x")
    with pytest.raises(RecordError, match=r"no values for 0\.table: .*reset_non_persistent_buffers\(device\)"):
        init_from(lambda: nn.Sequential(make()), path)


def test_parameter_that_the_record_lacks_is_an_error(tmp_path: Path) -> None:
    path = save(nn.Linear(3, 3, bias=False), tmp_path / "x")
    with pytest.raises(RecordMismatchError, match="bias"):
        init_from(lambda: nn.Linear(3, 3), path)


def test_what_makes_no_module_is_refused(tmp_path: Path) -> None:
    path = save(nn.Linear(3, 3), tmp_path / "x")
    with pytest.raises(RecordError, match=r"make an nn\.Module, got int"):
        init_from(lambda: 3, path)


@pytest.mark.cuda
def test_module_is_built_on_the_device_asked_for(tmp_path: Path) -> None:
    model = CONFIG.init()
    found = init_from(CONFIG, save(model, tmp_path / "x"), device="cuda")
    assert {tensor.device.type for tensor in (*found.parameters(), *found.buffers())} == {"cuda"}
    assert torch.equal(found.state_dict()["embedding.weight"].cpu(), model.state_dict()["embedding.weight"])
