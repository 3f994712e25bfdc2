"""Two processes that share an epoch have the values of one with all of it."""

import json

import pytest
import torch

from ...processes import assert_succeed, launched
from .samples import CASES, fed, values
from .worker import SHARES, SIZES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[list[float]]]]:
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("metrics")
    logs = [folder / f"{rank}.log" for rank in range(2)]
    assert_succeed(launched(["-m", "tests.train.metrics.worker", str(folder)], logs), logs)
    return [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", CASES)
def test_two_processes_have_the_value_of_one(found: list[dict[str, list[list[float]]]], name: str, share: str) -> None:
    case = CASES[name]
    batches = case.batches(SIZES)
    parts = [batches[part] for part in SHARES[share]]
    together = [*parts[0], *parts[1]]
    for rank in range(2):
        first, later = (torch.tensor(it, dtype=torch.float64) for it in found[rank][f"{name}: {share}"])
        expected = values(fed(case.config, together))
        if name.startswith("ConfusionStats") and not together:
            expected = torch.zeros_like(first)
        torch.testing.assert_close(first, expected, rtol=1e-12, atol=0, equal_nan=True)
        torch.testing.assert_close(later, values(fed(case.config, [*together, *batches[:2]])), rtol=1e-12, atol=0)
