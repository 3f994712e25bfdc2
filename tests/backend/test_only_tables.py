"""Everything that the API does, on a backend that burnlike does not know: nothing may pass beside its tables."""

from typing import Any

import pytest
import torch
from typing_extensions import get_protocol_members

from burnlike import Autodiff, Bool, Cpu, Float, Int, Tensor
from burnlike.backend.tables import TABLES
from burnlike.tensor import Distribution, Kind, Transaction
from examples.recording_backend import Recording
from tests.tensor.api.test_api_table import CASES, check
from tests.tensor.test_vectors import GROUPS
from tests.vectors.cases import is_program, run

from .recording import only_recorded_ops

BACKEND = Recording(Cpu(int=torch.int32))


def faults_of(group: str) -> list[str]:
    """What the backend computes otherwise than Burn."""
    faults: list[str] = []
    for record in GROUPS[group]:
        backend: Any = Autodiff(BACKEND) if is_program(record) else BACKEND
        outcome = run(record, backend)
        if outcome.verdict != "passed":
            faults.append(f"{record['id']}: {outcome.verdict}: {outcome.reason}")
    return faults


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_burns_numbers(group: str) -> None:
    with only_recorded_ops(BACKEND):
        faults = faults_of(group)
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_names_that_no_vector_has(name: str) -> None:
    with only_recorded_ops(BACKEND):
        check(CASES[name](BACKEND))


ROWS = {
    Float: torch.tensor([[1.5, -2.0, 0.0], [3.0, -0.5, 1.0]]),
    Int: torch.tensor([[1, -2, 0], [3, -5, 1]]),
    Bool: torch.tensor([[True, False, False], [True, True, False]]),
}
PLACES = torch.tensor([[0, 2, 1], [1, 1, 0]])
MASK = torch.tensor([[True, False, True], [False, False, True]])


def seven_or_six(it: torch.Tensor) -> torch.Tensor:
    """7 for Float, 6 for Int: numbers are drawn, then truncated."""
    return it.new_full((2,), 7 if it.is_floating_point() else 6)


# What every kind has: with a Tensor and with a torch tensor.
OF_ALL_KINDS: list[tuple[Any, Any]] = [
    (lambda x: x.empty_like().zeros_like(), torch.zeros_like),
    (lambda x: x.ones_like(), torch.ones_like),
    (lambda x: Tensor.ones((2,), BACKEND, kind=x.spec.kind), lambda it: it.new_ones(2)),
    (lambda x: Tensor.empty((2,), BACKEND, kind=x.spec.kind).zeros_like(), lambda it: it.new_zeros(2)),
    (lambda x: x.flatten(0, 1, rank=1), lambda it: it.flatten()),
    (lambda x: x.select_dim(0, 1), lambda it: it[1]),
    (lambda x: x.slice([slice(0, 1)]), lambda it: it[:1]),
    (lambda x: x.slice_assign([slice(0, 1)], x.slice([slice(1, 2)])), lambda it: torch.stack([it[1], it[1]])),
    (lambda x: x.slice_fill([slice(0, 1)], 1), lambda it: torch.stack([it[0].new_ones(3), it[1]])),
    (lambda x: x.split(1, 0)[1], lambda it: it[1:]),
    (lambda x: x.narrow(1, 1, 2), lambda it: it[:, 1:]),
    (lambda x: x.narrow(0, 1, 1).squeeze_dim(0), lambda it: it[1]),
    (lambda x: x.unsqueeze_dim(1), lambda it: it[:, None]),
    (lambda x: x.gather(1, PLACES), lambda it: it.gather(1, PLACES)),
    (lambda x: x.mask_select(MASK), lambda it: it[MASK]),
    (lambda x: x.mask_where(MASK, x.zeros_like()), lambda it: it * ~MASK),
]
OF_NUMBERS: list[tuple[Any, Any]] = [
    (lambda x: x.sign(), torch.sign),
    (lambda x: x.sum(), lambda it: it.sum().reshape(1)),
    (lambda x: x.prod(), lambda it: it.prod().reshape(1)),
    (lambda x: x.max(), lambda it: it.max().reshape(1)),
    (lambda x: x.max_abs(), lambda it: it.abs().max().reshape(1)),
    (lambda x: x.max_abs_dim(1), lambda it: it.abs().amax(1, keepdim=True)),
    (lambda x: x.argmax(1), lambda it: it.argmax(1, keepdim=True)),
    (lambda x: x.max_pair(-x), lambda it: it.abs()),
    (lambda x: x.abs().add(1).__rpow__(2), lambda it: 2 ** (it.abs() + 1)),
    (lambda x: x.abs().add(1).__rmod__(5), lambda it: 5 % (it.abs() + 1)),
    (lambda x: x.pad([(1, 0)], 7), lambda it: torch.nn.functional.pad(it, (1, 0), value=7)),
    (lambda x: x.pad([(1, 0)], "edge"), lambda it: torch.cat([it[:, :1], it], 1)),
    (lambda x: x.pad([(1, 0)], "reflect"), lambda it: torch.cat([it[:, 1:2], it], 1)),
    (lambda x: Tensor.eye(2, BACKEND, kind=x.spec.kind), lambda it: torch.eye(2, dtype=it.dtype)),
    (lambda x: Tensor.random((2,), Distribution.Bernoulli(1.0), BACKEND, kind=x.spec.kind), lambda it: it.new_ones(2)),
    (lambda x: Tensor.random((2,), Distribution.Normal(3.5, 0.0), BACKEND, kind=x.spec.kind) * 2, seven_or_six),
]


@pytest.mark.parametrize("kind", [Float, Int, Bool])
def test_what_kinds_share_is_the_same_in_each(kind: type[Kind]) -> None:
    x = Tensor(ROWS[kind], BACKEND)
    for ours, theirs in OF_ALL_KINDS + (OF_NUMBERS if kind is not Bool else []):
        with only_recorded_ops(BACKEND):
            got = ours(x).inner
        assert got.tolist() == theirs(ROWS[kind]).tolist()


@pytest.mark.parametrize("kind", [Float, Int, Bool])
def test_reading_is_recorded(kind: type[Kind]) -> None:
    x = Tensor(ROWS[kind], BACKEND)
    with only_recorded_ops(BACKEND):
        data = x.to_data().to_vec()
        text = str(x)
        registered = Transaction.default().register(x).execute()
        truth = bool(x.slice([slice(0, 1), slice(0, 1)]))
    assert data == ROWS[kind].flatten().tolist()
    assert "shape:  [2, 3]" in text
    assert registered[0].to_vec() == data
    assert truth is True


@pytest.mark.slow
def test_every_function_of_the_tables_is_called() -> None:
    BACKEND.log.clear()
    for group in GROUPS:
        assert not faults_of(group)
    for make in CASES.values():
        check(make(BACKEND))
    for kind in ROWS:
        test_what_kinds_share_is_the_same_in_each(kind)
        test_reading_is_recorded(kind)
    unreached = {f"{kind}_ops.to_device" for kind in ("float", "int", "bool")}  # it takes two devices
    entries = {f"{table}.{name}" for table, protocol in TABLES.items() for name in get_protocol_members(protocol)}
    missing = sorted(entries - unreached - set(BACKEND.log))
    assert not missing, "\n".join(missing)
