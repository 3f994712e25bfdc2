"""What type checkers are told of a layer's result is what typed tensors give."""

from typing import Any

import pytest

from burnlike import Cpu, Float, Tensor as Typed
from burnlike.nn.call_types import ChangesRank, EmbedsIndices, GivesLoss, KeepsType

from .cases import CASES, Case
from .test_layers import run

OF_THEIR_OWN = {"BiGru", "BiLstm", "BiRnn", "Lstm", "MultiHeadAttention", "Rnn"}
"""Layers that give several things."""
UNKNOWN = {"Graph", "Repeat", "Residual", "Sequential", "Split", "ConstantTensor"}
"""Layers whose results their configs decide: `Any` for checkers."""


@pytest.mark.parametrize("case", [pytest.param(it, id=it.name) for it in CASES if "typed" not in it.not_in])
def test_the_declared_type_is_that_of_the_result(case: Case) -> None:
    layer: Any = case.layer()
    kinds = [it for it in (KeepsType, GivesLoss, ChangesRank, EmbedsIndices) if isinstance(layer, it)]
    if type(layer).__name__ in OF_THEIR_OWN | UNKNOWN:
        assert not kinds
        return
    given: list[Any] = []

    def typed(tensor: Any) -> Any:
        given.append(Typed(tensor, Cpu()))
        return given[-1]

    result: Any = run(layer, case, typed)
    first = given[0]
    assert len(kinds) == 1
    if kinds == [KeepsType]:
        assert result.spec.kind is first.spec.kind
        assert result.rank() == first.rank()
    elif kinds == [GivesLoss]:
        assert (result.spec.kind, result.rank()) == (Float, 1)
    elif kinds == [ChangesRank]:
        assert result.spec.kind is first.spec.kind
    else:
        assert (result.spec.kind, result.rank()) == (Float, first.rank() + 1)
