"""Native ops run on several threads here, also where each process of the suite has one core."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(max(2, before))
    yield
    torch.set_num_threads(before)
