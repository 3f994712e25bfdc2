"""Each layer with a torch twin: it goes there and back unchanged, and stands in for its twin only where it may."""

import pytest
import torch
from torch import Tensor, nn

from burnlike import nn as layers
from burnlike.errors import NoCounterpartError
from burnlike.interop import from_torch, to_torch
from burnlike.interop.torch_counterparts import of_burnlike
from burnlike.module import display, params
from burnlike.record import NamedMpkFileRecorder, Record
from tests.nn.cases import CASES, Case, first_of_each, tensors_of

WITH_TWIN = [case for case in CASES if case.reference is None]


def each(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [first_of_each(case) for case in cases])


def is_called_alike(case: Case) -> bool:
    plain = Case("", case.config, case.inputs)
    return case.torch_inputs is plain.torch_inputs and case.torch_output is plain.torch_output


def call_of(case: Case) -> str:
    return list(of_burnlike()[type(case.layer())].values())[-1].call


def expect_equal(found: object, expected: object) -> None:
    for one, other in zip(tensors_of(found), tensors_of(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


class Program(nn.Module):
    """A class of a user's that calls a layer as torch's."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: Tensor) -> object:
        return self.layer(*inputs)


@each(WITH_TWIN)
def test_there_and_back(case: Case) -> None:
    layer = case.layer().float()
    theirs = to_torch(layer)
    assert type(theirs).__module__.startswith("torch.nn.modules.")
    back = from_torch(theirs)
    if case.name in ("LpLoss/l2", "Identity"):
        assert type(back) is (layers.MseLoss if case.name == "LpLoss/l2" else nn.Identity)
        return
    assert type(back) is type(layer)
    keeps_options = "Same" not in display(layer)  # padding, which comes back as numbers where it can
    assert display(back) == display(layer) or not keeps_options
    assert [(it.path, it.id, it.kind) for it in params(back)] == [(it.path, it.id, it.kind) for it in params(layer)]
    for one, other in zip(params(back), params(layer), strict=True):
        assert torch.equal(one.tensor, other.tensor)
    recorder = NamedMpkFileRecorder()
    if getattr(case.config, "layout", "row") == "row":
        assert recorder.to_bytes(Record.from_module(back)) == recorder.to_bytes(Record.from_module(layer))
    again = to_torch(back)
    if keeps_options:
        assert_same_plain(again, theirs)
    for (name, one), (other_name, other) in zip(again.state_dict().items(), theirs.state_dict().items(), strict=True):
        assert name == other_name
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def assert_same_plain(one: nn.Module, other: nn.Module) -> None:
    """That two layers have the same options."""
    for part, its in zip(one.modules(), other.modules(), strict=True):
        assert part.__dict__.keys() == its.__dict__.keys()
        for name, value in part.__dict__.items():
            if isinstance(value, bool | int | float | str | tuple) or value is None:
                assert value == its.__dict__[name], name


@each(WITH_TWIN)
def test_the_numbers_are_those_of_torch(case: Case) -> None:
    theirs = to_torch(case.layer())
    twin = from_torch(theirs)
    inputs, named = case.drawn()
    torch.manual_seed(3)
    expected = case.torch_output(theirs(*case.torch_inputs(*inputs, **named)))
    torch.manual_seed(3)
    expect_equal(twin(*inputs, **named), expected)


@each(WITH_TWIN)
def test_in_a_program_a_twin_computes_the_same_or_is_refused(case: Case) -> None:
    program = Program(to_torch(case.layer()))
    if call_of(case) != "same":
        with pytest.raises(NoCounterpartError, match=r"layer .*is called in another way"):
            from_torch(program)
        with pytest.raises(NoCounterpartError, match=r"layer .*is called in another way"):
            to_torch(Program(case.layer()))
        return
    assert is_called_alike(case)
    twin = from_torch(program)
    inputs, _ = case.drawn()
    torch.manual_seed(3)
    expected = program(*inputs)
    torch.manual_seed(3)
    expect_equal(twin(*inputs), expected)
