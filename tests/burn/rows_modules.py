"""The rows of 'Modules and parameters' of docs/deviations."""

from typing import Any

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.errors import ParamPathError
from burnlike.module import LoraConfig, ParamGroup, fork, freeze, params, to_device, valid
from burnlike.nn import DropoutConfig, LinearConfig
from burnlike.optim import GradientsParams, SgdConfig

from .rows import ELSEWHERE, row
from .running import ask


class Net(bl.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = DropoutConfig(0.5).init()
        self.first = LinearConfig(2, 2).init()
        self.second = LinearConfig(2, 2).init()


def of_burn(name: str) -> dict[str, Any]:
    (answer,) = ask("modules", [{"row": name}])
    assert "refused" not in answer, answer
    return answer


def drops(net: Net) -> bool:
    return bool((net.dropout(torch.ones(64, 64)) == 0).any())


def ids(module: nn.Module) -> list[str]:
    return [str(it.id) for it in params(module)]


@row("Dropout")
def dropout() -> None:
    answer = of_burn("dropout")
    assert answer["autodiff"]
    assert not answer["valid"]
    net = Net()
    assert drops(net)
    assert not drops(net.eval())


@row("`valid()`")
def valid_copies() -> None:
    answer = of_burn("valid")
    assert answer["same ids"]
    assert answer["gap"] == 0 < answer["largest"]  # the valid module has the values of before
    net = Net()
    view = valid(net)
    with torch.no_grad():
        net.first.weight.mul_(2)
    assert torch.equal(view.first.weight, net.first.weight)


@row("Training flags (0.22's `Flag`)")
def flags() -> None:
    answer = of_burn("dropout")
    assert (answer["frozen"], answer["no_grad"]) == (False, True)
    assert drops(freeze(Net()))


@row("`to_device` of a module")
def moved() -> None:
    assert of_burn("copies")["to_device"]
    net = Net()
    weight = net.first.weight
    assert to_device(net, "cpu") is net
    assert net.first.weight is weight
    assert weight.is_leaf
    assert weight.requires_grad


@row("`fork`")
def forked() -> None:
    answer = of_burn("copies")
    assert answer["fork"]
    assert answer["forked trainable"]
    net = Net()
    copy = fork(net, "cpu")
    assert copy is not net
    assert ids(copy) == ids(net)


@row("`map`")
def mapped() -> None:
    assert of_burn("copies")["map"]
    net = Net()
    doubled = net.map(lambda param: param.tensor * 2)
    assert ids(doubled) == ids(net)
    assert torch.equal(doubled.first.weight, net.first.weight * 2)


@row("A module at two places, tied tensors")
def tied() -> None:
    answer = of_burn("tied")
    assert (answer["visited"], answer["ids"], answer["gradients"]) == (4, 2, 2)
    assert answer["stepped"] == [True, False]
    net = Net()
    net.second = net.first
    assert len(params(net)) == 2
    net.second(net.first(torch.ones(1, 2))).sum().backward()
    before = net.second.weight.detach().clone()
    SgdConfig().init().step(1.0, net, GradientsParams.from_module(net))
    assert not torch.equal(net.second.weight, before)
    assert torch.equal(net.second.weight, net.first.weight)


@row("A parameter object in another place")
def elsewhere() -> None:
    assert of_burn("moved")["kept"]
    net, other = Net(), Net()
    param_id = params(net.second)[0].id
    other.first.weight = net.second.weight
    assert params(other.first)[0].id == param_id


@row("New ids")
def new_ids() -> None:
    one, other = of_burn("new ids")["ids"], of_burn("new ids")["ids"]
    assert len({*one, *other}) == 8
    assert len({*ids(Net()), *ids(Net())}) == 8
    bl.module.seed_param_ids(1)
    first = ids(Net())
    bl.module.seed_param_ids(1)
    assert ids(Net()) == first


@row("Int and Bool parameters")
def ints() -> None:
    answer = of_burn("odd")
    assert answer["parameters"] == ["count"]
    assert answer["numbers"] == 0  # its parameters are counted as what is trained

    class Counts(bl.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = bl.module.Param.from_tensor(torch.tensor([1, 2, 3]))

    assert [(it.path, it.kind) for it in params(Counts())] == [("count", "state")]


@row("`Some(3)` in a display")
def option() -> None:
    assert "size: Some(3)" in of_burn("odd")["display"]

    class Plain(bl.Module):
        def __init__(self) -> None:
            super().__init__()
            self.size = 3

    class Annotated(Plain):
        size: int | None

    assert "size: 3" in str(bl.module.display(Plain()))
    assert "size: Some(3)" in str(bl.module.display(Annotated()))


@row("Lazy parameters")
def lazy() -> None:
    answer = of_burn("lazy")
    assert (answer["before"], answer["after"]) == (False, True)
    assert isinstance(LinearConfig(2, 2).init().weight, nn.Parameter)


@row("`ParamGroup` with a path that the module lacks, or that matches nothing in `freeze`, `unfreeze` and records")
def group() -> None:
    answer = of_burn("groups")
    assert (answer["of a typing mistake"], answer["of a path"]) == (True, False)
    with pytest.raises(ParamPathError, match=r"first\.weight"):
        freeze(Net(), ParamGroup.from_path("first.wieght"))


@row("Regular expressions of groups")
def regex() -> None:
    answer = of_burn("groups")
    assert "look-around" in answer["lookahead"]
    assert answer["plain"] is None
    frozen = freeze(Net(), ParamGroup.from_regex("first(?=.weight)"))
    assert not frozen.first.weight.requires_grad


@row("LoRA: a group without a matrix")
def lora_without() -> None:
    assert not of_burn("lora")["an adapter of a bias"]
    with pytest.raises(bl.errors.BurnlikeError):
        Net().apply_lora(LoraConfig(rank=2, alpha=4.0, param_group=ParamGroup.from_predicate("bias")))


@row("LoRA in `state_dict()`")
def lora_names() -> None:
    paths = of_burn("lora")["paths"]
    net = Net().apply_lora(LoraConfig(rank=2, alpha=4.0))
    assert sorted(it.path for it in params(net)) == sorted(paths)
    assert "first.parametrizations.weight.0.a" in net.state_dict()


@row("None and empty lists in a tree")
def empty() -> None:
    assert of_burn("odd")["modules"] == ["count", "absent", "layers"]

    class Odd(bl.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = bl.module.Param.from_tensor(torch.tensor([1, 2, 3]))
            self.absent = None
            self.layers: list[nn.Module] = []

    class Names:
        def __init__(self) -> None:
            self.entered: list[str] = []

        def enter_module(self, name: str, container_type: str) -> None:
            self.entered.append(name)

    visitor = Names()
    bl.module.visit(Odd(), visitor)
    assert visitor.entered == ["count"]


_TREE = "tests/module"
_ADAPTERS = "tests/interop/adapters"
ELSEWHERE |= {
    "`visit`": f"{_TREE}/transforms/test_visiting.py::test_an_object_with_some_of_the_methods_is_a_visitor",
    "`clone` of a module with a field that can't be copied (a connection, a lock, an open file)": (
        f"{_TREE}/transforms/test_placement.py::test_a_field_that_cant_be_copied_is_named_and_shared_as_a_constant"
    ),
    "Two tensors with one id": (
        f"{_TREE}/identity/test_identity.py::test_a_copied_layer_beside_its_original_is_still_an_error"
    ),
    "`module.weight` under `fully_shard`": (
        "tests/fsdp/test_fsdp.py::test_a_sharded_module_holds_its_sharded_parameters"
    ),
    "Texts of ids from before 0.15 (UUIDs)": (
        f"{_TREE}/identity/test_identity.py::test_a_uuid_of_old_versions_is_the_same_id_each_time"
    ),
    "Tensors that are optimized": f"{_TREE}/test_pickles.py::test_a_torch_optimizer_follows_when_a_layer_is_removed",
    "RunningState": f"{_TREE}/test_states.py::test_every_way_of_setting_a_state_detaches",
    "A lazy parameter as an argument of `torch.func.grad` or `vmap`, or in `torch.jit`": (
        f"{_TREE}/torch_objects/test_lazy_parameter.py::test_as_an_argument_of_a_transform_it_is_nan"
    ),
    "Labels, mappers and given ids of the bare parameters in a list that is in a user's container": (
        f"{_TREE}/containers/test_user_containers.py::test_bare_parameters_in_a_containers_list_keep_their_ids"
    ),
    "A reference (`bl.constant`) among the `module_children` of a user's container": (
        f"{_TREE}/containers/test_user_containers.py::test_containers_that_break_their_word_are_told_so"
    ),
    "A tool that takes a bare parameter out of a user's container, as `parametrize` does": (
        f"{_TREE}/containers/test_user_containers.py::test_a_tool_can_not_take_a_bare_parameter_away"
    ),
    "LoRA: tied weights": f"{_TREE}/adapters/test_lora.py::test_every_layer_computes_with_the_effective_weight",
    "QLoRA, `quantize_weights`": (
        "tests/interop/test_read_weights.py::test_adapters_on_a_quantized_base_are_trained_as_on_a_plain_one"
    ),
    "LoRA: dropout, DoRA, peft's files": f"{_ADAPTERS}/test_peft_files.py::test_adapters_are_saved_read_and_merged",
    "`type: LoRA`: tied weights": f"{_ADAPTERS}/test_families.py::test_a_config_trains_what_peft_trains",
    "Regular expressions of configs, filters and groups": "tests/test_patterns.py::test_no_pattern_takes_long",
    "`type: LoRA`: convolutions with groups, dilation or a padding mode": (
        f"{_ADAPTERS}/test_beside_peft.py::test_convolutions_that_take_no_adapter_are_named"
    ),
}
