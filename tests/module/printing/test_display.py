"""Modules as text: settings, chosen contents, and trees that torch's tools changed."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from burnlike import mlax, nn as layers
from burnlike.errors import ArgumentError
from burnlike.module import (
    Content,
    DisplaySettings,
    LoraConfig,
    Module,
    Param,
    ParamId,
    apply_lora,
    constant,
    display,
    num_params,
    params,
)
from burnlike.module.identity.field_metadata import set_meta

from ..fields import Chosen, Fields


class Inline(Fields):
    def custom_settings(self) -> DisplaySettings:
        return DisplaySettings(new_line_after_attribute=False, show_num_parameters=False)


def linear(d_input: int = 2, d_output: int = 1) -> layers.Linear:
    return layers.LinearConfig(d_input=d_input, d_output=d_output).init()


def lines(*text: str) -> str:
    return "\n".join(text)


# Settings


def test_a_class_decides_what_the_caller_leaves_open() -> None:
    module = Inline(a=1, weight=nn.Parameter(torch.zeros(2)))
    weight = "weight: ParamTensor {rank: 1, shape: [2], kind: float}"
    assert display(module) == f"Inline {{a: 1, {weight}}}"
    shown = display(module, DisplaySettings(show_num_parameters=True))
    assert shown == f"Inline {{a: 1, {weight}, params: 2}}"
    shown = display(module, DisplaySettings(new_line_after_attribute=True))
    assert shown == lines("Inline {", "  a: 1", f"  {weight}", "}")


def test_parts_take_over_what_their_parent_decided() -> None:
    assert display(Inline(part=Fields(a=1))) == "Inline {part: Fields {a: 1}}"
    assert display(Fields(part=Inline(a=1))) == lines("Fields {", "  part: Inline {a: 1}", "}")


def test_indentation_grows_with_the_level() -> None:
    module = Fields(outer=Fields(inner=Fields(a=1)))
    assert display(module, DisplaySettings(indentation_size=4)) == lines(
        "Fields {",
        "    outer: Fields {",
        "        inner: Fields {",
        "            a: 1",
        "        }",
        "    }",
        "}",
    )
    assert display(Fields(a=1), DisplaySettings(indentation_size=0)) == lines("Fields {", "a: 1", "}")
    with pytest.raises(ArgumentError, match="indentation_size >= 0, got -1"):
        DisplaySettings(indentation_size=-1)


def test_outer_settings_win_only_where_they_are_set() -> None:
    own = DisplaySettings(show_param_id=True, indentation_size=3)
    outer = DisplaySettings(show_param_id=False, show_num_parameters=False)
    expected = DisplaySettings(show_param_id=False, show_num_parameters=False, indentation_size=3)
    assert own.inherit(outer) == expected


def test_all_attributes_are_shown_in_place_of_the_chosen_ones() -> None:
    dropout = layers.DropoutConfig(prob=0.5).init()
    assert display(dropout) == "Dropout {prob: 0.5}"
    shown = display(linear(), DisplaySettings(show_all_attributes=True, new_line_after_attribute=True))
    assert shown == lines(
        "Linear {",
        "  weight: ParamTensor {rank: 2, shape: [2, 1], kind: float}",
        "  bias: ParamTensor {rank: 1, shape: [1], kind: float}",
        "  params: 3",
        "}",
    )


# Content


def test_a_single_item_stands_alone() -> None:
    part = Chosen(lambda content: content.add_single("only this"), weight=nn.Parameter(torch.zeros(3)))
    assert display(part) == "only this"
    assert display(Fields(part=part)) == lines("Fields {", "  part: only this", "  params: 3", "}")


def test_a_type_name_can_be_chosen() -> None:
    assert display(Chosen(lambda content: content.set_top_level_type("Mine"))) == "Mine"
    assert display(Chosen(lambda content: content.set_top_level_type("Mine").add("a", 1))) == "Mine {\n  a: 1\n}"


def test_content_is_readable_text_and_parts_are_themselves() -> None:
    def choose(content: Content) -> Content:
        content.add("epsilon", 1e-5).add("name", "text").add("weight", module.weight).add("mean", module.mean)
        content.add("table", module.table).add("part", module.part).add("handle", params(module)[0])
        return content.add("none", None).add("sizes", [1, 1])

    module = Chosen(choose, weight=nn.Parameter(torch.zeros(3)), mean=Param.running(torch.zeros(2)), part=Fields(a=1.0))
    module.register_buffer("table", torch.zeros(2, 2), persistent=False)
    assert display(module) == lines(
        "Chosen {",
        "  epsilon: 0.00001",
        "  name: text",
        "  weight: ParamTensor {rank: 1, shape: [3], kind: float}",
        "  mean: RunningState",
        "  table: Tensor {rank: 2, shape: [2, 2]}",
        "  part: Fields {",
        "    a: 1.0",
        "  }",
        "  handle: ParamTensor {rank: 1, shape: [3], kind: float}",
        "  none: None",
        "  sizes: [1, 1]",
        "  params: 5",
        "}",
    )


class Interpolate(Module):
    output_size: list[int] | None
    scale_factor: float | None

    def custom_content(self, content: Content) -> Content:
        return content.add_debug("output_size", [20, 20]).add_debug("scale_factor", None).add_debug("mode", "nearest")


def test_debug_content_tells_types_apart() -> None:
    shown = display(Interpolate(), DisplaySettings(new_line_after_attribute=False))
    assert shown == 'Interpolate {output_size: Some([20, 20]), scale_factor: None, mode: "nearest"}'


def test_attributes_and_a_single_item_exclude_each_other() -> None:
    def both(content: Content) -> None:
        with pytest.raises(ArgumentError, match="single item can't be added to attributes"):
            content.add("a", 1).add_single("b")
        content.attributes.clear()
        with pytest.raises(ArgumentError, match="'a' can't be added to a single item"):
            content.add_single("b").add("a", 1)

    display(Chosen(both))


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (
            lambda content: content.add("size", content.shape("weight")),
            "ModuleTreeError: Chosen has no tensor 'weight'",
        ),
        (lambda content: "text", "TypeError: expected the Content or None from custom_content, got str"),
    ],
    ids=["raises", "wrong type"],
)
def test_a_content_that_fails_is_told_beside_all_fields(choose: Callable[[Content], Any], message: str) -> None:
    assert display(Chosen(choose, a=1)) == lines("Chosen {", "  a: 1", f"  custom_content: {message}", "}")


def test_hooks_work_on_plain_modules() -> None:
    class Plain(nn.Linear):
        def custom_content(self, content: Content) -> Content:
            return content.add("size", content.shape("weight"))

    assert display(Plain(3, 2)) == lines("Plain {", "  size: [2, 3]", "  params: 8", "}")


# Fields


def test_fields_are_shown_in_the_order_in_which_they_were_declared() -> None:
    module = Fields(b=1, none=None, weight=nn.Parameter(torch.zeros(1)), a="text", part=None)
    module.part = Fields()
    module.none = nn.Parameter(torch.zeros(2))
    assert [line.split(":")[0].strip() for line in display(module).splitlines()[1:-2]] == [
        *("b", "none", "weight", "a", "part"),
    ]
    module.none = None
    assert "\n  none: None\n  weight" in display(module)


def test_private_constants_hooks_and_modes_are_not_shown() -> None:
    module = Fields(a=1, _private=2)
    module.register_forward_hook(lambda *_: None)
    module.forward = lambda x: x
    module.eval()
    assert display(module) == lines("Fields {", "  a: 1", "}")


def test_containers() -> None:
    module = Fields(
        vec=[Fields(), None, 1.0], tuple=(Fields(),), dict={"a": Fields(), "b": nn.Parameter(torch.zeros(2))}
    )
    assert display(module) == lines(
        "Fields {",
        "  vec: Vec<0..3> {",
        "    0: Fields",
        "    1: None",
        "    2: 1.0",
        "  }",
        "  tuple: (L0) {",
        "    0: Fields",
        "  }",
        "  dict: Dict {",
        "    a: Fields",
        "    b: ParamTensor {rank: 1, shape: [2], kind: float}",
        "  }",
        "  params: 2",
        "}",
    )


class Pair:
    """A container of a user's own."""

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right

    def module_children(self) -> dict[str, Any]:
        return {"left": self.left, "right": self.right}

    def with_module_children(self, children: Any) -> "Pair":
        return Pair(**children)


def test_a_users_container_is_shown_with_what_it_holds_now() -> None:
    module = Fields(pair=Pair(linear(), 2.0))
    module.pair.left = linear(3, 1)
    assert display(module) == lines(
        "Fields {",
        "  pair: Pair {",
        "    left: Linear {d_input: 3, d_output: 1, bias: true, params: 4}",
        "    right: 2.0",
        "    params: 4",
        "  }",
        "  params: 4",
        "}",
    )
    module.pair.left = linear(4, 1)
    assert "shape: [4, 1]" in display(module, DisplaySettings(show_all_attributes=True))


def test_a_constant_module_is_named_but_not_shown() -> None:
    module = Fields(part=linear())
    module.part.parent = constant(module)
    shown = display(module, DisplaySettings(show_all_attributes=True, new_line_after_attribute=False))
    assert "parent: &Fields, params: 3}" in shown


def test_tied_tensors_are_counted_once_and_have_one_id() -> None:
    weight = nn.Parameter(torch.zeros(4))
    module = Fields(a=weight, b=weight)
    shown = display(module, DisplaySettings(show_param_id=True))
    (param,) = params(module)
    assert shown.count(f"id: {param.id}}}") == 2
    assert f"params: {num_params(module)}\n" in shown
    assert num_params(module) == 4


# What a display must not do


def test_lazy_parameters_stay_uninitialized() -> None:
    def init(device: torch.device) -> torch.Tensor:
        raise AssertionError("initialized")

    module = Fields(weight=Param.uninitialized(init, [2, 3]), chosen=Chosen(lambda content: content))
    assert "weight: ParamTensor {rank: 2, shape: [2, 3], kind: float}\n" in display(module)
    assert "params: 6" in display(module)
    assert not module.param("weight").is_initialized()


def test_ids_are_drawn_only_to_be_shown() -> None:
    module = nn.Sequential(nn.Linear(2, 1))
    assert "id: " not in display(module)
    assert "_burnlike" not in module[0].__dict__
    shown = display(module, DisplaySettings(show_param_id=True))
    for param in params(module):
        assert f"id: {param.id}}}" in shown


def test_two_tensors_with_one_id_are_shown_with_it() -> None:
    part = Fields(weight=Param.from_tensor(torch.zeros(1), id=ParamId(123456)))
    module = Fields(a=part, b=copy.deepcopy(part))
    assert display(module, DisplaySettings(show_param_id=True)).count("id: 83h0200000000}") == 2


# Any module


def test_a_plain_module_shows_constants_then_tensors_then_parts() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.ReLU()
            self.register_parameter("missing", None)
            self.weight = nn.Parameter(torch.zeros(2))
            self.register_buffer("mean", torch.zeros(2))
            self.register_buffer("steps", torch.tensor(0))
            self.register_buffer("table", torch.zeros(2), persistent=False)
            self.size = (3, 3)

    assert display(Plain()) == lines(
        "Plain {",
        "  size: (3, 3)",
        "  missing: None",
        "  weight: ParamTensor {rank: 1, shape: [2], kind: float}",
        "  mean: RunningState",
        "  steps: ParamTensor {rank: 0, shape: [], kind: int}",
        "  table: Tensor {rank: 1, shape: [2]}",
        "  part: ReLU {",
        "    inplace: false",
        "  }",
        "  params: 4",
        "}",
    )


def test_torch_containers() -> None:
    module = nn.Sequential(
        nn.ModuleList([nn.Identity()]),
        nn.ModuleDict({"a": nn.Identity()}),
        nn.ParameterList([nn.Parameter(torch.zeros(1))]),
    )
    assert display(module) == lines(
        "Sequential {",
        "  0: Vec<0..1> {",
        "    0: Identity",
        "  }",
        "  1: Dict {",
        "    a: Identity",
        "  }",
        "  2: Vec<0..1> {",
        "    0: ParamTensor {rank: 1, shape: [1], kind: float}",
        "  }",
        "  params: 1",
        "}",
    )


def test_print_of_a_torch_container_shows_its_burnlike_parts() -> None:
    module = nn.Sequential(linear(), Fields(a=1))
    assert str(module) == lines(
        "Sequential(",
        "  (0): Linear {d_input: 2, d_output: 1, bias: true, params: 3}",
        "  (1): Fields {",
        "    a: 1",
        "  }",
        ")",
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2),
        lambda: nn.LSTM(3, 2, bidirectional=True),
        lambda: nn.Conv2d(2, 4, 3, padding="same"),
        lambda: nn.BatchNorm1d(2, affine=False, track_running_stats=False),
        lambda: nn.ParameterDict({"a": nn.Parameter(torch.zeros(1))}),
        lambda: nn.Linear(2, 1, device="meta"),
    ],
)
def test_torch_modules_have_a_text(make: Callable[[], nn.Module]) -> None:
    assert display(make(), DisplaySettings(show_param_id=True))


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_torchs_lazy_layers_stay_uninitialized() -> None:
    module = nn.LazyLinear(3)
    assert "  weight: ParamTensor {uninitialized, kind: float}\n" in display(module)
    assert module.has_uninitialized_params()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda module: torch.compile(module, backend="eager"),
        nn.DataParallel,
        lambda m: nn.DataParallel(torch.compile(m, backend="eager")),
    ],
    ids=["compile", "data_parallel", "both"],
)
def test_wrappers_are_looked_through(wrap: Callable[[nn.Module], Any]) -> None:
    module = linear()
    assert display(wrap(module)) == display(module)
    swiglu = layers.SwiGluConfig(d_input=4, d_output=3).init()
    expected = display(swiglu)
    swiglu.linear_inner = wrap(swiglu.linear_inner)
    assert display(swiglu) == expected


class Refuses(nn.Module):
    """A parametrization that must not be asked for its tensor."""

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        raise AssertionError("computed")


def test_a_parametrized_tensor_is_not_computed() -> None:
    module = linear(3, 2)
    param_id = module.param("weight").id
    expected = display(module)
    parametrizations.weight_norm(module).parametrizations.weight[0].__class__ = Refuses
    assert display(module) == expected.replace("params: 8", "params: 11")
    shown = display(module, DisplaySettings(show_all_attributes=True, show_param_id=True))
    assert f"weight: ParamTensor {{rank: 2, shape: [3, 2], kind: float, id: {param_id}}}" in shown


def test_a_pruned_layer_is_shown() -> None:
    module = prune.l1_unstructured(linear(3, 2), "weight", amount=0.5)
    assert display(module) == "Linear {d_input: 3, d_output: 2, bias: true, params: 14}"


def test_a_module_with_holes_shows_what_is_left() -> None:
    module = layers.SwiGluConfig(d_input=4, d_output=3).init()
    inner = module.linear_inner
    inner._parameters["weight"] = None
    set_meta(inner, "weight", hole=True)
    assert display(module) == (
        "SwiGlu {linear_inner: Linear {weight: Hole, bias: None}, "
        "linear_outer: Linear {d_input: 4, d_output: 3, bias: false, params: 12}, params: 12}"
    )


def test_a_tensor_that_is_not_there_yet_is_told_from_one_that_never_will_be() -> None:
    module = Fields(later=nn.Parameter(torch.zeros(1)), never=None)
    module._parameters["later"] = None
    set_meta(module, "later", trainable=True)
    assert display(module) == lines("Fields {", "  later: Uninitialized", "  never: None", "}")


def test_handles_of_what_is_missing_have_a_text() -> None:
    module = Fields(weight=nn.Parameter(torch.zeros(1)))
    handle = module.param("weight")
    module._parameters["weight"] = None
    set_meta(module, "weight", hole=True)
    assert display(handle) == "Hole"


def test_data_of_several_tensors_are_shown_as_what_they_are() -> None:
    class Several(mlax.Module):
        def __init__(self) -> None:
            super().__init__()
            self.data = mlax.Parameter(True, [torch.zeros(2), {"k": torch.zeros(1)}])

    module = Several()
    text = lines(
        "Vec<0..2> {",
        "  0: ParamTensor {rank: 1, shape: [2], kind: float}",
        "  1: Dict {",
        "    k: ParamTensor {rank: 1, shape: [1], kind: float}",
        "  }",
        "}",
    )
    shown = display(module.data, DisplaySettings(show_num_parameters=False))
    assert shown == text
    assert display(mlax.filter(module, mlax.is_non_trainable)) == lines("Several {", "  data: Hole", "}")


def test_adapters_are_counted_and_the_weight_keeps_its_text() -> None:
    module = nn.Sequential(linear(3, 2), nn.Linear(2, 2, bias=False))
    apply_lora(module, LoraConfig(rank=2, alpha=1.0))
    assert display(module) == lines(
        "Sequential {",
        "  0: Linear {d_input: 3, d_output: 2, bias: true, params: 18}",
        "  1: Linear {",
        "    in_features: 2",
        "    out_features: 2",
        "    weight: ParamTensor {rank: 2, shape: [2, 2], kind: float}",
        "    bias: None",
        "    params: 12",
        "  }",
        "  params: 30",
        "}",
    )
    assert f"params: {num_params(module)}\n" in display(module)


def test_a_tree_that_holds_itself_has_an_end() -> None:
    module = Fields(part=Fields(a=1))
    module.part.up = module
    assert display(module, DisplaySettings(show_param_id=True)) == lines(
        "Fields {", "  part: Fields {", "    a: 1", "    up: &Fields (it holds itself)", "  }", "}"
    )


def test_a_module_before_its_init_has_a_text() -> None:
    assert repr(Fields.__new__(Fields)) == "Fields (its __init__ has not run)"


def test_copies_look_like_their_original() -> None:
    module = Fields(vec=[linear()], weight=nn.Parameter(torch.zeros(2)), none=None)
    assert repr(copy.deepcopy(module)) == repr(module.clone()) == repr(module.valid()) == repr(module)
