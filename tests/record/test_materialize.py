"""Building without initializing: the module equals the saved one, nothing random or slow has run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from burnlike.errors import ArgumentError, RecordError, RecordMismatchError
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


class Draws(TorchDispatchMode):
    """Notes operators that draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags and not (isinstance(result, torch.Tensor) and result.is_meta):
            self.found.append(str(func))
        return result


INITIALIZERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "uniform_": nn.init.uniform_,
    "normal_": nn.init.normal_,
    "trunc_normal_": nn.init.trunc_normal_,
    "xavier_normal_": nn.init.xavier_normal_,
    "kaiming_uniform_": nn.init.kaiming_uniform_,
    "orthogonal_": nn.init.orthogonal_,
    "sparse_": lambda weight: nn.init.sparse_(weight, 0.5),
    "data": lambda weight: weight.data.normal_(0.0, 0.02),
    "copy": lambda weight: weight.data.copy_(torch.randn(4, 4) * 0.02),
}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_the_second_build_for_a_buffer_runs_no_random_initializer(tmp_path: Path, name: str) -> None:
    class Drawn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            with torch.no_grad():
                INITIALIZERS[name](self.layer.weight)
            self.register_buffer("inverse", 1.0 / 10.0 ** torch.arange(0.0, 3.0), persistent=False)

    model = Drawn()
    path, before = save(model, tmp_path / "x"), torch.get_rng_state()
    with Draws() as draws:
        found = init_from(Drawn, path)
    assert draws.found == []
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(found.layer.weight, model.layer.weight)
    assert torch.equal(found.inverse, model.inverse)


class ResettableTable(Table):
    def reset_non_persistent_buffers(self, device: torch.device) -> None:
        self.table = torch.arange(3.0, device=device)


class Attribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.table = torch.arange(3.0)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.tables = {"cosine": [torch.arange(3.0).cos()], "own": self.weight}


class Rotary:
    """A plain object that a module keeps a table in."""

    def __init__(self) -> None:
        self.table = torch.arange(3.0)
        self.itself = self


class Object(Table):
    def __init__(self) -> None:
        super().__init__()
        self.rotary = [Rotary()]


class NamedTable(NamedTuple):
    table: torch.Tensor


class InNamedTuple(Table):
    def __init__(self) -> None:
        super().__init__()
        self.named = NamedTable(torch.arange(3.0))


class Reads(Table):
    def __init__(self) -> None:
        super().__init__()
        self.rates = torch.linspace(0, 1, 3).tolist()


class RandomTable(Table):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("noise", torch.randn(2) * torch.arange(2.0), persistent=False)


class Looks(Table):
    def __init__(self) -> None:
        super().__init__()
        noise = torch.randn(1)
        self.positive = not noise.is_meta and noise.item() > 0


class Initialized(Table):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        for initialize in (nn.init.orthogonal_, nn.init.trunc_normal_, nn.init.kaiming_normal_):
            initialize(self.linear.weight)
        self.scaled = nn.Parameter(torch.randn(4, 4).triu() * 0.02)


def test_non_persistent_buffers_are_computed_by_their_module(tmp_path: Path) -> None:
    path = save(nn.Sequential(ResettableTable()), tmp_path / "x")
    found = init_from(lambda: nn.Sequential(ResettableTable()), path)
    assert found[0].table.tolist() == [0, 1, 2]


@pytest.mark.parametrize("make", [Table, Attribute, Initialized])
def test_what_no_record_holds_is_computed_by_the_constructor_without_random_numbers(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    model = nn.Sequential(make())
    path = save(model, tmp_path / "x")
    before = torch.get_rng_state()
    found = init_from(lambda: nn.Sequential(make()), path)
    assert torch.equal(torch.get_rng_state(), before)
    assert found[0].table.tolist() == [0, 1, 2]
    assert all(torch.equal(one, other) for one, other in zip(found.parameters(), model.parameters(), strict=True))


def test_tensors_in_lists_are_computed_and_references_to_parameters_follow(tmp_path: Path) -> None:
    found = init_from(Nested, save(Nested(), tmp_path / "x"))
    assert torch.equal(found.tables["cosine"][0], torch.arange(3.0).cos())
    assert found.tables["own"] is found.weight


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (RandomTable, r"no values for 0\.noise: .*depend on random numbers.*reset_non_persistent_buffers\(device\)"),
        (Looks, r"no values for 0\.table: .*looks at random numbers.*reset_non_persistent_buffers\(device\)"),
        (InNamedTuple, r"no values for 0\.named\.0: .*in a container that can't be filled"),
        (
            Reads,
            "can't be built without values: .*; give device='cpu' to the tensors whose values its constructor looks",
        ),
    ],
)
def test_tensor_left_without_a_value_is_an_error(make: Callable[[], Any], message: str, tmp_path: Path) -> None:
    path = save(nn.Sequential(make()), tmp_path / "x")
    with pytest.raises(RecordError, match=message):
        init_from(lambda: nn.Sequential(make()), path)


def test_options_of_load_are_taken(tmp_path: Path) -> None:
    path = save(nn.ModuleDict({"inner": nn.Linear(2, 2)}), tmp_path / "x", BFloat16Precision)
    found = init_from(lambda: nn.Linear(2, 2), path, remap=[(r"^inner\.", "")], dtype="as_saved")
    assert found.weight.dtype == torch.bfloat16
    torch.save({"state": found.state_dict()}, tmp_path / "x.pt")
    again = init_from(lambda: nn.Linear(2, 2), tmp_path / "x.pt", top_level_key="state")
    assert torch.equal(again.weight, found.weight.float())


def test_tensors_in_plain_objects_are_computed(tmp_path: Path) -> None:
    found = init_from(Object, save(Object(), tmp_path / "x"))
    assert found.rotary[0].table.tolist() == [0, 1, 2]
    assert found.rotary[0].itself is found.rotary[0]


def test_parameter_that_may_be_missing_can_not_be_left_without_values() -> None:
    record = Record({"weight": torch.ones(2, 2)})
    with pytest.raises(RecordError, match="the record gives no values for bias, and no initializer runs here"):
        init_from(lambda: nn.Linear(2, 2), record, strict=False)


def test_persistent_buffer_that_may_be_missing_is_computed() -> None:
    found = init_from(lambda: nn.BatchNorm1d(2), Record({"weight": torch.ones(2), "bias": torch.ones(2)}), strict=False)
    assert found.running_var.tolist() == [1, 1]


def test_parameter_that_the_record_lacks_is_an_error(tmp_path: Path) -> None:
    path = save(nn.Linear(3, 3, bias=False), tmp_path / "x")
    with pytest.raises(RecordMismatchError, match="bias"):
        init_from(lambda: nn.Linear(3, 3), path)


def test_what_makes_no_module_is_refused(tmp_path: Path) -> None:
    path = save(nn.Linear(3, 3), tmp_path / "x")
    with pytest.raises(RecordError, match=r"make an nn\.Module, got int"):
        init_from(lambda: 3, path)
    for wrong in (nn.Linear(3, 3), "config.yaml"):
        with pytest.raises(ArgumentError, match=r"expected a config with init\(device\), or a function"):
            init_from(wrong, path)


@pytest.mark.cuda
def test_module_is_built_on_the_device_asked_for(tmp_path: Path) -> None:
    model = CONFIG.init()
    found = init_from(CONFIG, save(model, tmp_path / "x"), device="cuda")
    assert {tensor.device.type for tensor in (*found.parameters(), *found.buffers())} == {"cuda"}
    assert torch.equal(found.state_dict()["embedding.weight"].cpu(), model.state_dict()["embedding.weight"])
