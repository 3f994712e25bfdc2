"""Everything that the API does, on a backend that burnlike does not know: nothing may pass beside its tables."""

from typing import Any

import pytest
import torch
from typing_extensions import get_protocol_members

from burnlike import Autodiff, Cpu
from burnlike.backend.tables import TABLES
from examples.recording_backend import Recording
from tests.tensor.test_vectors import GROUPS
from tests.vectors.cases import is_program, run

from .recording import only_recorded_ops

BACKEND = Recording(Cpu(int=torch.int32))


@pytest.mark.parametrize("group", GROUPS)
def test_burns_numbers(group: str) -> None:
    faults: list[str] = []
    with only_recorded_ops(BACKEND):
        for record in GROUPS[group]:
            backend: Any = Autodiff(BACKEND) if is_program(record) else BACKEND
            outcome = run(record, backend)
            if outcome.verdict != "passed":
                faults.append(f"{record['id']}: {outcome.verdict}: {outcome.reason}")
    assert not faults, "\n".join(faults)


def test_every_function_of_the_tables_is_called() -> None:
    if not BACKEND.log:
        pytest.skip("counts what the other tests of this file called")
    entries = {f"{table}.{name}" for table, protocol in TABLES.items() for name in get_protocol_members(protocol)}
    assert sorted(entries - set(BACKEND.log)) == []
