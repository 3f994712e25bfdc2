"""Each row of docs/deviations is true: Burn does what it says, and burnlike does the other."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from .rows import ELSEWHERE, SHOWN, rows_of

SECTIONS = (
    "Optimizers",
    "Records and files",
    "Configs and training",
    "Tensors and backends",
    "Layers and losses",
    "Modules and parameters",
)
for path in sorted(Path(__file__).parent.glob("rows_*.py")):
    import_module(f"{__package__}.{path.stem}")


def test_each_row_is_shown_by_a_case_or_names_the_test_that_shows_it() -> None:
    rows = [cell for section in SECTIONS for cell in rows_of(section)]
    assert sorted({*SHOWN, *ELSEWHERE}) == sorted({*rows})
    assert not {*SHOWN} & {*ELSEWHERE}
    root = Path(__file__).parents[2]
    for subject, place in ELSEWHERE.items():
        file, _, name = place.partition("::")
        assert (root / file).is_file(), (subject, place)
        assert re.search(rf"\bdef {name}\b", (root / file).read_text()), (subject, place)


@pytest.mark.burn
@pytest.mark.parametrize("subject", SHOWN)
def test_row(subject: str) -> None:
    SHOWN[subject]()
