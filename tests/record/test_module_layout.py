"""Layouts that modules tell: those of Burn's structs, so that its bincode files load into them and are saved again."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import burnlike as bl
from burnlike import nn as layers
from burnlike.errors import ModuleTreeError, RecordError, RecordFormatError
from burnlike.module import LoraConfig, Module, ModuleArray, ModuleEnum, ModuleVec, Param, params
from burnlike.record import BinFileRecorder, Record, SafetensorsRecorder
from burnlike.record.layout import check_layout
from burnlike.record.state_dict.module_layout import layout_of
from tests.golden.layouts import LAYERS, MODELS

if TYPE_CHECKING:
    from collections import OrderedDict  # a name that only type checkers know

FOLDER = Path(__file__).parents[1] / "golden" / "v0.21"


def linear(d_input: int, d_output: int, bias: bool = True) -> layers.Linear:
    return layers.LinearConfig(d_input=d_input, d_output=d_output, bias=bias).init()


class Two(Module):
    weight: Tensor
    bias: "Tensor | None"

    def __init__(self, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 2))
        self.bias = nn.Parameter(torch.zeros(2)) if bias else None


class LayerNorm(Module):
    gamma: Tensor
    beta: Tensor | None

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(size))
        self.beta = nn.Parameter(torch.zeros(size))
        self.epsilon = 1e-5


class BatchNorm(Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))
        self.running_mean = Param.running(torch.zeros(size))
        self.running_var = Param.running(torch.ones(size))
        self.momentum, self.epsilon = 0.1, 1e-5


class Head(ModuleEnum):
    Plain: layers.Linear
    Normed: LayerNorm


class Kinds(Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Parameter(torch.zeros(2, 3))
        self.i = Param.from_tensor(torch.zeros(3, dtype=torch.int32))
        self.b = Param.from_tensor(torch.zeros(2, 2, dtype=torch.bool))
        self.plain = torch.zeros(2)
        self.count, self.ratio, self.name, self.flag = 3, 0.5, "sentinel", True
        self.maybe: int | None = 7
        self._hidden = "not a field"


class Tree(Module):
    some: layers.Linear | None
    none: layers.Linear | None
    empty: list[layers.Linear]

    def __init__(self) -> None:
        super().__init__()
        self.layers = [linear(2, 3), linear(3, 2, bias=False)]
        self.pair = ModuleArray([linear(2, 2), linear(2, 1)])
        self.tuple = (linear(1, 2), LayerNorm(3))
        self.some = linear(2, 2)
        self.none = None
        self.head = Head(Plain=linear(2, 2))
        self.other = Head(Normed=LayerNorm(2))
        self.norm = BatchNorm(3)
        self.dropout = layers.DropoutConfig(prob=0.3).init()
        self.empty = []
        self.scale = 2.0
        self.nested = Two(bias=True)


class Empty(Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = layers.DropoutConfig(prob=0.3).init()
        self.act = nn.ReLU()
        self.phantom = None


MODULES: dict[str, Any] = {
    "two": Two,
    "kinds": Kinds,
    "tree": Tree,
    "empty": Empty,
    "linear": lambda: linear(3, 2),
    "linear_no_bias": lambda: linear(3, 2, bias=False),
    "embedding": layers.EmbeddingConfig(n_embedding=5, d_model=4).init,
    "rms_norm": layers.RmsNormConfig(d_model=6).init,
    "swiglu": layers.SwiGluConfig(d_input=4, d_output=3, bias=False).init,
    "rotary_encoding": layers.RotaryEncodingConfig(max_sequence_length=10, d_model=4).init,
}


@pytest.mark.parametrize("name", MODULES)
def test_burns_files_load_into_modules_and_are_saved_byte_for_byte(name: str, tmp_path: Path) -> None:
    path = FOLDER / f"{name}-full.bin"
    module = MODULES[name]()
    report = bl.record.load(module, path)
    assert report.applied == [param.path for param in params(module)]
    saved = bl.record.save(module, tmp_path / "saved.bin")
    assert Path(saved).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("extension", [".mpk", ".json"])
@pytest.mark.parametrize("name", MODULES)
def test_formats_with_names_show_the_constants_of_burns_structs(name: str, extension: str, tmp_path: Path) -> None:
    path = FOLDER / f"{name}-full{extension}"
    module = MODULES[name]()
    bl.record.load(module, path)
    assert Path(bl.record.save(module, tmp_path / f"saved{extension}")).read_bytes() == path.read_bytes()


def test_a_file_with_another_variant_or_length_is_refused() -> None:
    module = Tree()
    module.other = Head(Plain=linear(2, 2))
    with pytest.raises(RecordFormatError, match="'other' has the variant 'Normed' where the layout has 'Plain'"):
        bl.record.load(module, FOLDER / "tree-full.bin")
    module = Tree()
    module.layers = [linear(2, 3)]
    with pytest.raises(RecordFormatError, match="'layers' has 2 items where the layout has 1"):
        bl.record.load(module, FOLDER / "tree-full.bin")


def test_modules_are_built_from_bincode() -> None:
    built = bl.record.init_from(lambda: linear(3, 2), FOLDER / "linear-full.bin")
    assert torch.equal(built.weight, bl.record.open_record(FOLDER / "linear-full.mpk").tensors["weight"])


def test_layers_have_the_layouts_of_burns_structs() -> None:
    config = {"d_model": 4}
    assert layout_of(linear(2, 2)) == LAYERS["Linear"]
    assert layout_of(layers.RmsNormConfig(**config).init()) == LAYERS["RmsNorm"]
    assert layout_of(layers.SwiGluConfig(d_input=2, d_output=2).init()) == LAYERS["SwiGlu"]
    assert layout_of(layers.DropoutConfig(prob=0.5).init()) == LAYERS["Dropout"]
    assert layout_of(Kinds()) == MODELS["kinds"]


def test_plain_torch_modules_have_parameters_buffers_and_children_and_no_constants() -> None:
    norm = nn.BatchNorm1d(3)
    norm.register_buffer("passing", torch.zeros(1), persistent=False)
    assert layout_of(nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU(), norm)) == {
        "$vec": [
            {"weight": "param", "bias": {"$option": "param"}},
            "constant",
            dict.fromkeys(["weight", "bias", "running_mean", "running_var", "num_batches_tracked"], "param"),
        ]
    }


class Point(NamedTuple):
    one: nn.Module
    two: nn.Module


def _tied() -> nn.Module:
    module = nn.Module()
    module.one, module.two = nn.Linear(2, 2), nn.Linear(2, 2)
    module.two.weight = module.one.weight
    return module


def _held() -> Module:
    module = Module()
    module.parts = {"a": nn.Linear(1, 1), "b": [nn.Linear(1, 1), None, 3]}
    module.point = Point(nn.Linear(1, 1), nn.ReLU())
    module.late = ModuleVec()
    return module


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.TransformerEncoderLayer(4, 2, 8),
        lambda: nn.LSTM(2, 3, num_layers=2),
        lambda: nn.ParameterList([torch.zeros(1), torch.zeros(2)]),
        lambda: nn.ParameterDict({"a": torch.zeros(1)}),
        lambda: nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ModuleList([nn.Linear(1, 1)])}),
        lambda: torch.compile(nn.Linear(2, 2), backend="eager"),
        lambda: parametrizations.spectral_norm(nn.Linear(2, 2)),
        _tied,
        _held,
        Tree,
    ],
)
def test_every_tensor_has_its_place(make: Any) -> None:
    module = make()
    layout = layout_of(module)
    check_layout(layout)
    record = Record.from_module(module)
    again = BinFileRecorder().from_bytes(BinFileRecorder().to_bytes(record), layout)
    assert list(again.tensors) == [*record.tensors]
    assert again.aliases == record.aliases
    for name, tensor in record.tensors.items():
        assert torch.equal(again.tensors[name], tensor)


class Undecided(ModuleEnum): ...


def test_an_enum_whose_variants_are_not_annotated_is_enough_for_names_alone() -> None:
    module = Module()
    module.head = Undecided(Second=linear(1, 1))
    assert layout_of(module) == {"head": {"$named": {"$enum": [["Second", LAYERS["Linear"]]], "is": "Second"}}}
    with pytest.raises(RecordError, match="'head' is that of a file with names"):
        BinFileRecorder().to_bytes(Record.from_module(module))


class Own(Module):
    def __init__(self) -> None:
        super().__init__()
        self.b, self.a = linear(1, 1), linear(1, 1)

    def record_layout(self) -> Any:
        return {"a": LAYERS["Linear"], "size": "constant", "b": LAYERS["Linear"]}


def test_a_class_may_tell_its_layout_itself() -> None:
    assert layout_of(nn.Sequential(Own())) == {"$vec": [Own().record_layout()]}


class Unresolved(Module):
    names: "OrderedDict[str, int]"
    bias: "Tensor | None"
    parts: "list[Tensor]"

    def __init__(self) -> None:
        super().__init__()
        self.bias = None
        self.parts = []


def test_annotations_that_only_type_checkers_can_resolve_are_read_as_texts() -> None:
    assert layout_of(Unresolved()) == {"bias": {"$option": "param"}, "parts": {"$vec": []}}


def test_reparameterized_tensors_have_no_place_until_they_are_materialized() -> None:
    module = linear(4, 4).apply_lora(LoraConfig(rank=1, alpha=1.0))
    with pytest.raises(RecordError, match=r"'weight' of Linear is reparameterized.*materialize"):
        layout_of(module)
    assert layout_of(module.materialize()) == LAYERS["Linear"]


def test_a_module_that_holds_itself_is_refused() -> None:
    module = nn.Module()
    module.above = nn.ModuleList([module])
    with pytest.raises(ModuleTreeError, match="holds"):
        layout_of(module)


def test_safetensors_files_neither_need_nor_hold_the_layout_of_a_module() -> None:
    class Mute(Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def record_layout(self) -> Any:
            raise AssertionError("asked for")

    data = SafetensorsRecorder().to_bytes(Record.from_module(Mute()))
    assert b"burnlike.layout" not in data
