"""Every method and function of the tensor API, in burnlike and in Burn, on drawn arguments and at edges."""

import pytest

from .running import ask
from .tensor_cases import Case, asked, burns, difference, mine
from .tensor_draws import GROUPS, cases_of
from .tensor_flaws import flaw_of


def compared(cases: list[Case]) -> list[str]:
    """The differences that no row and no flaw of Burn explains."""
    ours = [mine(case) for case in cases]
    answers = ask("tensors", [asked(case, answer) for case, answer in zip(cases, ours, strict=True)])
    wrong: list[str] = []
    for case, left, answer in zip(cases, ours, answers, strict=True):
        right = burns(answer)
        found = difference(left, right)
        if found is not None and flaw_of(case, left, right) is None:
            wrong.append(f"{case}: {found}\n    burnlike {left}\n    Burn {right}")
    return wrong


@pytest.mark.burn
@pytest.mark.parametrize("name", GROUPS)
def test_group(name: str) -> None:
    cases = cases_of(name)
    wrong = compared(cases)
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:40])
