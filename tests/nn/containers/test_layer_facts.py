"""The facts that `burnlike check` has of a layer are those of the layer itself."""

import inspect

import pytest

from burnlike import nn
from burnlike.config import ModuleConfig
from burnlike.nn.containers.layer_facts import facts_of, input_counts
from tests.nn.cases import CASES, Case

NO_INPUTS = {"rng", "reduction", "start"}
"""Arguments of forwards that are no tensors and no states, which no node gives."""
CONFIGS = {type(case.config): case.config for case in CASES if not case.name.startswith(("Graph", "Repeat"))}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=lambda config: type(config).__name__)
def test_they_are_those_of_the_forward(config: ModuleConfig) -> None:
    layer = getattr(nn, type(config).__name__.removesuffix("Config"))
    given = [*inspect.signature(layer.forward).parameters.values()][1:]
    in_order = [it for it in given if it.kind is it.POSITIONAL_OR_KEYWORD]
    needed = [it for it in in_order if it.default is it.empty]
    taken = [it for it in in_order if it.name not in NO_INPUTS]
    least, most = input_counts(config)
    if any(it.kind is it.VAR_POSITIONAL for it in given):
        assert (least, most) == (2, None)
    else:
        assert least == len(needed)
        assert most is None or len(taken) <= most <= len(in_order)


LAYERS = {type(case.config): case for case in CASES if ".containers." not in type(case.config).__module__}


@pytest.mark.parametrize("case", LAYERS.values(), ids=lambda case: case.name)
def test_layers_that_give_several_values_are_known(case: Case) -> None:
    inputs, named = case.drawn()
    assert facts_of(case.config).gives_several == isinstance(case.layer()(*inputs, **named), tuple)


def test_those_of_containers_are_those_of_their_parts() -> None:
    graph = nn.GraphConfig(inputs=("a", "b"), nodes={"sum": nn.NodeConfig(layer=nn.AddConfig(), sources=("a", "b"))})
    assert input_counts(graph) == input_counts(nn.RepeatConfig(times=2, layer=graph)) == (2, 2)


def test_those_of_users_classes_are_not_known() -> None:
    class MineConfig(ModuleConfig):
        pass

    assert input_counts(MineConfig()) == (1, None)
