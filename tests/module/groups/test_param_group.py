"""ParamGroup: which parameters are meant, as a value that configs and YAML can hold."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.config import Config
from burnlike.config.json_schema import json_schema
from burnlike.errors import ConfigError, ModuleTreeError, ParamPathError
from burnlike.module import Param, ParamGroup, ParamId, ParamMatcher, freeze, params, unfreeze
from burnlike.record import Record

from ..cases import case

A, B = ParamId(11), ParamId(22)
PATHS = ["encoder.0.weight", "encoder.0.bias", "encoder.norm.weight", "decoder.weight"]


class StepConfig(Config, tag="StepForTests"):
    rate: float = 0.1
    group: ParamGroup = ParamGroup.all()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4, 2)
        self.norm = nn.BatchNorm1d(2)
        self.head = nn.Linear(2, 4, bias=False)
        self.head.weight = self.embedding.weight


class DepthMatcher(ParamMatcher, tag="DepthForTests"):
    depth: int

    def accepts(self, param_id: ParamId, paths: Sequence[str]) -> bool:
        return any(path.count(".") == self.depth for path in paths)


def matched(group: ParamGroup) -> list[str]:
    return [path for path in PATHS if group.matches_id_path(A, path)]


def selected(group: ParamGroup, module: nn.Module) -> list[str]:
    return [param.path for param in group.select(module)]


@case("param_group/explicit_matches_only_selected_ids")
def test_ids_match_only_those_listed() -> None:
    group = ParamGroup.from_ids([A])
    assert group.matches_id_path(A)
    assert group.matches_id_path(A, "anywhere")
    assert not group.matches_id_path(B)


@case("param_group/exclude_removes_matching_ids_from_a_group")
def test_excluded_ids_do_not_match() -> None:
    group = ParamGroup.from_ids([A, B]).exclude(ParamGroup.from_ids([B]))
    assert group.matches_id_path(A)
    assert not group.matches_id_path(B)


@case("param_group/exclude_ignores_excludes_on_the_provided_group")
def test_excludes_of_an_excluded_group_do_not_count() -> None:
    weight, bias = "model.backbone.weight", "model.backbone.bias"
    inner = ParamGroup.from_path(bias).exclude(ParamGroup.from_path(weight))
    group = ParamGroup.from_path(weight).exclude(inner)
    assert group.matches_id_path(A, weight)
    assert not group.matches_id_path(A, bias)
    assert not ParamGroup.from_paths([weight, bias]).exclude(inner).matches_id_path(A, bias)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (ParamGroup.all(), PATHS),
        (ParamGroup.from_path("encoder.0.bias"), ["encoder.0.bias"]),
        (ParamGroup.from_path("encoder.0"), []),
        (ParamGroup.from_paths(["decoder.weight", "encoder.0.bias"]), ["encoder.0.bias", "decoder.weight"]),
        (ParamGroup.from_predicate("norm"), ["encoder.norm.weight"]),
        (ParamGroup.from_predicates(["encoder", "weight"]), ["encoder.0.weight", "encoder.norm.weight"]),
        (ParamGroup.from_any_predicates(["norm", "bias"]), ["encoder.0.bias", "encoder.norm.weight"]),
        (ParamGroup.from_any_predicates([]), []),
        (ParamGroup.from_regex(r"\.\d+\."), ["encoder.0.weight", "encoder.0.bias"]),
        (ParamGroup.from_regex("^weight"), []),
        (ParamGroup.from_regexes(["^enc", "weight$"]), ["encoder.0.weight", "encoder.norm.weight"]),
        (ParamGroup.from_any_regexes(["^dec", "bias$"]), ["encoder.0.bias", "decoder.weight"]),
        (ParamGroup.from_any_regexes([]), []),
    ],
    ids=lambda it: str(it) if isinstance(it, ParamGroup) else "",
)
def test_rules_by_path(group: ParamGroup, expected: list[str]) -> None:
    assert matched(group) == expected


@pytest.mark.parametrize(
    "group", [ParamGroup.from_predicates([]), ParamGroup.from_regexes([])], ids=["texts", "regexes"]
)
def test_all_of_nothing_matches_whatever_has_a_path(group: ParamGroup) -> None:
    assert matched(group) == PATHS
    assert not group.matches_id_path(A)


def test_without_a_path_only_ids_and_all_match() -> None:
    by_path = [
        ParamGroup.from_path(""),
        ParamGroup.from_predicate(""),
        ParamGroup.from_any_predicates([""]),
        ParamGroup.from_regex(""),
        ParamGroup.from_any_regexes([""]),
    ]
    assert not any(group.matches_id_path(A) or group.matches_id_path(A, "") for group in by_path)
    unbound = Param.from_tensor(torch.zeros(1))
    assert not any(group.matches(unbound) for group in by_path)
    assert ParamGroup.all().matches(unbound)
    assert ParamGroup.from_ids([unbound.id]).matches(unbound)


def test_fuse_is_the_union_and_drops_the_excludes_of_both() -> None:
    bias = ParamGroup.from_predicate("bias")
    fused = ParamGroup.from_predicate("encoder").exclude(bias).fuse(ParamGroup.from_predicate("decoder").exclude(bias))
    assert matched(fused) == PATHS
    assert fused.excludes == ()


def test_excludes_add_up_and_leave_the_group_as_it_was() -> None:
    group = ParamGroup.all()
    both = group.exclude(ParamGroup.from_predicate("norm")).exclude(ParamGroup.from_predicate("bias"))
    assert matched(both) == ["encoder.0.weight", "decoder.weight"]
    assert matched(group) == PATHS


def test_a_tied_tensor_is_meant_by_any_of_its_paths() -> None:
    net = Net()
    assert selected(ParamGroup.from_path("head.weight"), net) == ["embedding.weight"]
    assert selected(ParamGroup.from_regex("^head"), net) == ["embedding.weight"]
    assert "embedding.weight" not in selected(ParamGroup.all().exclude(ParamGroup.from_predicate("head")), net)
    # One path has to fulfil all of a rule.
    assert selected(ParamGroup.from_predicates(["head", "embedding"]), net) == []


def test_select_keeps_the_order_of_params_and_takes_states_too() -> None:
    assert selected(ParamGroup.from_any_predicates(["running", "head", "norm.bias"]), Net()) == [
        "embedding.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
    ]


def test_ids_of_a_module_are_found_in_a_larger_tree_and_after_moving() -> None:
    net = Net()
    group = ParamGroup.ids_from_module(net.norm)
    expected = ["norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    assert selected(group, net) == expected
    assert selected(group, nn.Sequential(net.norm)) == [path.replace("norm", "0", 1) for path in expected]


def test_ids_are_taken_as_values_and_as_text_in_any_case() -> None:
    group = ParamGroup.from_ids([str(A).upper(), B])
    assert group.matches_id_path(A)
    assert group.matches_id_path(B)


def test_a_function_sees_the_param() -> None:
    net = Net()
    group = ParamGroup.from_predicate(lambda param: param.kind == "weight" and param.tensor.ndim == 1)
    assert selected(group, net) == ["norm.weight", "norm.bias"]
    weight, bias = params(net.norm, "weight")
    weight.with_name("scale")
    assert selected(ParamGroup.from_predicate(lambda param: param.name == "scale"), net) == ["norm.weight"]
    assert ParamGroup.all().exclude(group).matches(bias) is False


def test_a_function_may_return_what_is_true_or_false() -> None:
    net = Net()
    group = ParamGroup.from_predicate(lambda param: (param.tensor == 1).all())
    assert selected(group, net) == ["norm.weight", "norm.running_var"]


def test_a_function_that_raises_is_told_with_its_path_and_nothing_is_frozen() -> None:
    net = Net()

    def only_matrices(param: Param) -> bool:
        return param.tensor.shape[1] == 2

    with pytest.raises(ModuleTreeError, match=r"only_matrices.* raised IndexError at 'norm\.weight'") as caught:
        freeze(net, ParamGroup.from_predicate(only_matrices))
    assert isinstance(caught.value.__cause__, IndexError)
    assert all(param.requires_grad for param in params(net, "weight"))


def test_a_function_that_returns_several_values_is_told() -> None:
    net = Net()
    with pytest.raises(ModuleTreeError, match=r"returned a Tensor of shape \[4, 2\] at 'embedding\.weight'"):
        freeze(net, ParamGroup.from_predicate(lambda param: param.tensor > 0))
    assert all(param.requires_grad for param in params(net, "weight"))


@pytest.mark.parametrize(
    "use",
    [freeze, unfreeze, Record.from_module],
)
def test_a_group_that_matches_nothing_is_told(use: Any) -> None:
    net = Net()
    with pytest.raises(
        ParamPathError, match=r"Net has no parameter in the group .*\^9.*; it has 'embedding\.weight', "
    ):
        use(net, ParamGroup.from_regex("^9"))
    assert all(param.requires_grad for param in params(net, "weight"))


def test_a_function_can_not_tell_by_id_and_path() -> None:
    with pytest.raises(ModuleTreeError, match="needs a Param"):
        ParamGroup.from_predicate(lambda param: True).matches_id_path(A, "weight")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("norm.wieght", "Net has no parameter 'norm.wieght'; did you mean 'norm.weight'?"),
        ("head.wieght", "Net has no parameter 'head.wieght'; did you mean 'head.weight'?"),
        ("norm", "Net has no parameter 'norm'; 'norm' is a module that holds 5, such as 'norm.weight'"),
        (
            "zzz",
            "Net has no parameter 'zzz'; it has 'embedding.weight', 'head.weight', 'norm.weight', 'norm.bias',"
            " 'norm.running_mean' and 2 more",
        ),
    ],
)
def test_an_exact_path_that_does_not_exist_names_the_nearest(path: str, message: str) -> None:
    net = Net()
    for group in (ParamGroup.from_paths(["norm.bias", path]), ParamGroup.all().exclude(ParamGroup.from_path(path))):
        with pytest.raises(ParamPathError) as caught:
            freeze(net, group)
        assert str(caught.value) == message
    assert all(param.requires_grad for param in params(net, "weight"))


@pytest.mark.parametrize("wrong", ["norm", lambda param: True, [ParamGroup.all()]])
def test_what_is_no_group_is_refused_with_how_to_make_one(wrong: Any) -> None:
    net = Net()
    for use in (
        lambda: freeze(net, wrong),
        lambda: unfreeze(net, wrong),
        lambda: Record.from_module(net, wrong),
        lambda: ParamGroup.all().fuse(wrong),
        lambda: ParamGroup.all().exclude(wrong),
    ):
        with pytest.raises(TypeError, match=r"expected a ParamGroup, got .*ParamGroup\.from_predicate makes one"):
            use()
    assert all(param.requires_grad for param in params(net, "weight"))


GROUPS = [
    ParamGroup.all(),
    ParamGroup.from_ids([A, ParamId(0), ParamId(2**64 - 1)]),
    ParamGroup.from_paths(["a.b", "1e5"]),
    ParamGroup.from_predicates(["yes", "0x1"]),
    ParamGroup.from_any_predicates([]),
    ParamGroup.from_regexes([r"^a\.\d+$", "#'\": "]),
    ParamGroup.from_any_regexes([r"\\", "(?i)É"]),
    ParamGroup.from_regex("^a").fuse(ParamGroup.from_ids([B])).exclude(ParamGroup.from_path("a.b")),
]


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_yaml_reads_back_as_an_equal_group(group: ParamGroup) -> None:
    assert ParamGroup.from_yaml(group.to_yaml()) == group
    config = StepConfig(group=group)
    assert StepConfig.from_yaml(config.to_yaml()) == config
    matched(group)  # what a group keeps to be fast is no part of it
    assert pickle.loads(pickle.dumps(group)) == copy.deepcopy(group) == group
    assert hash(group) == hash(ParamGroup.from_dict(group.to_dict()))


def test_yaml_as_people_write_it() -> None:
    config = StepConfig.from_yaml(
        "group:\n"
        "  match: [{type: Regexes, regexes: ['^encoder\\.']}]\n"
        "  excludes: [{type: AnyPredicates, predicates: [norm, bias]}]\n"
    )
    assert matched(config.group) == ["encoder.0.weight"]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "{type: Regexes, regexes: [a, '(']}",
            r"net.yaml:3:34: group.match.0.regexes.1: expected a regular expression",
        ),
        (
            "{type: AnyRegexes, regexes: ['[']}",
            r"net.yaml:3:34: group.match.0.regexes.0: expected a regular expression",
        ),
        ("{type: Ids, ids: [w]}", r"net.yaml:3:23: group.match.0.ids.0: .*expected a ParamId of 13 characters"),
        ("{type: Ids, ids: [12]}", r"net.yaml:3:23: group.match.0.ids.0: expected a string, got 12.*in quotes"),
        ("{type: Regex, regexes: [a]}", r"net.yaml:3:12: group.match.0.type: unknown type 'Regex'.*mean 'Regexes'"),
        ("{type: Paths, path: [a]}", r"net.yaml:3:19: group.match.0.path: unknown key 'path'; did you mean 'paths'"),
        ("{type: Paths, paths: a}", r"net.yaml:3:26: group.match.0.paths: expected a list"),
    ],
)
def test_a_wrong_rule_is_told_with_its_place(rule: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StepConfig.from_yaml(f"group:\n  match:\n  - {rule}\n", "net.yaml")


def test_a_rule_of_ones_own_joins_by_its_type() -> None:
    group = ParamGroup.from_yaml("match: [{type: DepthForTests, depth: 1}]")
    assert matched(group) == ["decoder.weight"]
    assert ParamGroup.from_yaml(group.to_yaml()) == group


def test_an_empty_group_is_told() -> None:
    with pytest.raises(ConfigError, match=r"group\.match: expected a list of at least 1 item"):
        StepConfig.from_yaml("group: {match: []}")
    with pytest.raises(ConfigError, match="missing key 'match'"):
        StepConfig.from_yaml("group: {}")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ParamGroup.from_predicates("norm"),
        lambda: ParamGroup.from_paths([1]),  # pyright: ignore
        lambda: ParamGroup.from_predicate(3),  # pyright: ignore
        lambda: ParamGroup.from_predicate(str),  # pyright: ignore
        lambda: ParamGroup.from_regex("("),
        lambda: ParamGroup.from_ids(["no id"]),
        lambda: ParamGroup.from_ids([7]),  # pyright: ignore
    ],
)
def test_python_gets_the_same_errors(make: Any) -> None:
    with pytest.raises(ConfigError, match="expected"):
        make()


def test_a_group_with_a_function_stands_in_configs_but_not_in_yaml(tmp_path: Any) -> None:
    config = StepConfig(group=ParamGroup.from_predicate(lambda param: param.kind == "weight"))
    assert selected(config.group, nn.Linear(1, 1)) == ["weight", "bias"]
    for write in (config.to_yaml, config.to_dict, lambda: config.save(tmp_path / "step.yaml")):
        with pytest.raises(ConfigError, match=r"<lambda>.*Python function.*from_regexes"):
            write()
    assert list(tmp_path.iterdir()) == []


def test_the_schema_lists_the_rules_that_yaml_can_hold() -> None:
    schema = json_schema(StepConfig)["definitions"]
    tags = {rule["allOf"][0]["$ref"].removeprefix("#/definitions/Match") for rule in schema["ParamMatcher"]["anyOf"]}
    assert tags - {"#/definitions/DepthMatcher"} == {
        *("All", "AnyPredicates", "AnyRegexes", "Ids", "Paths", "Predicates", "Regexes")
    }
    regexes = schema["MatchRegexes"]["properties"]["regexes"]
    regexes = schema[regexes["$ref"].rpartition("/")[2]] if "$ref" in regexes else regexes
    assert regexes["anyOf"][0]["items"] == {"type": "string"}
    assert schema["ParamGroup"]["required"] == ["match"]


def test_a_config_with_a_group_is_read_without_torch() -> None:
    program = (
        "import sys\n"
        "from burnlike.config import Config\n"
        "from burnlike.module import ParamGroup\n"
        "class Step(Config):\n"
        "    group: ParamGroup\n"
        "Step.from_yaml('group: {match: [{type: Regexes, regexes: [a]}]}').group.matches_id_path(None, 'a')\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
