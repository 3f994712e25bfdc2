"""Every rule with drawn configs, groups and gradients: each step as Burn's, and records carried both ways."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from .optimizer_cases import RECORD_AT, RULES, Case, difference, drawn_case, values_of
from .running import ask, random_of

pytestmark = [pytest.mark.burn, pytest.mark.filterwarnings("ignore:step. no parameter:UserWarning")]

_CASES = 32


def _compared(cases: list[Case], folder: Path) -> tuple[list[str], int]:
    """Differences of all steps, of burnlike's records continued by Burn, and of Burn's continued by burnlike."""
    ours = [case.run(folder) for case in cases]
    answers = ask("optimizers", [case.asked() for case in cases])
    theirs = [values_of(case, answer) for case, answer in zip(cases, answers, strict=True)]
    middles = [[course[RECORD_AT - 1] for course in mine] for mine, _ in ours]
    asked = [case.asked(values, saved) for case, values, (_, saved) in zip(cases, middles, ours, strict=True)]
    problems = []
    for case, (mine, _), burn, before, after in zip(
        cases, ours, theirs, answers, ask("optimizers", asked), strict=True
    ):
        problems.append(difference(case, mine, burn, folder))
        problems.append(difference(case, mine, _joined(mine, values_of(case, after)), folder))
        rest, _ = case.run(folder, [course[RECORD_AT - 1] for course in burn], bytes.fromhex(before["record"]))
        problems.append(difference(case, _joined(burn, rest), burn, folder))
    return [it for it in problems if it], len(problems)


def _joined(courses: list[Tensor], rests: list[Tensor]) -> list[Tensor]:
    return [torch.cat([course[:RECORD_AT], rest]) for course, rest in zip(courses, rests, strict=True)]


@pytest.mark.parametrize("rule", RULES)
def test_every_step_and_records_both_ways(rule: str, tmp_path: Path) -> None:
    random = random_of(f"optimizer {rule}")
    wrong, count = _compared([drawn_case(random, rule, number) for number in range(_CASES)], tmp_path)
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize("rule", [it for it in RULES if it != "Lion"])  # which has a row of its own
def test_gradients_that_are_not_finite(rule: str, tmp_path: Path) -> None:
    random = random_of(f"broken gradients {rule}")
    wrong, count = _compared([drawn_case(random, rule, number, broken=True) for number in range(8)], tmp_path)
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong[:10])
