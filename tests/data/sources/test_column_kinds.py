"""Guesses of what a column is, from its values."""

import subprocess
import sys

import pytest

from burnlike.data.sources.table_cells import column_kind

CUSTOMERS = [f"K{number:06}" for number in range(40)]

KINDS = [
    (["1", "2.5", "3"], "number"),
    (["1", "k.A.", "3", "-"], "number"),
    (["1", "nan", "3"], "number"),
    ([1, 2.5, None], "number"),
    (["14.01.2021", "02.12.2020"], "date"),
    (["2021-01-14", "2021-01-15T10:00"], "date"),
    (["yes", "No", ""], "boolean"),
    ([True, False], "boolean"),
    (["ja", "nein"], "category"),
    (["red", "blue", "14.01.2021"], "category"),
    (["007", "018"], "category"),
    (CUSTOMERS, "category"),
    ([f"a house with {number} rooms and a garden" for number in range(20)], "text"),
    (["", None], "number"),
]


@pytest.mark.parametrize(("values", "kind"), KINDS)
def test_kind(values: list[object], kind: str) -> None:
    assert column_kind(values).kind == kind


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["31.12.2020", "1.2.2021"], "%d.%m.%Y"),
        (["31.12.20", "01.02.21"], "%d.%m.%y"),
        (["12/31/2020", "01/02/2021"], "%m/%d/%Y"),
        (["31/12/2020", "01/02/2021"], "%d/%m/%Y"),
        (["2020/12/31 10:30", "2021/01/02 00:00"], "%Y/%m/%d %H:%M"),
        (["2020-12-31"], None),
    ],
)
def test_format_of_dates(values: list[str], expected: str | None) -> None:
    assert column_kind(values).format == expected


def test_dates_that_fit_two_formats_name_both() -> None:
    assert "%d/%m/%Y" in " ".join(column_kind(["01/02/2020", "03/04/2020"]).reasons)


def test_texts_without_a_value_are_counted_as_gaps() -> None:
    guess = column_kind(["1", "k.A.", "", "2", "k.A."])
    assert (guess.missing_values, guess.gaps, guess.distinct) == (("k.A.",), 3, 2)


def test_texts_that_the_config_knows_as_missing_are_not_named_again() -> None:
    guess = column_kind(["1", "absent", "2"], missing_values=["absent"])
    assert (guess.kind, guess.missing_values, guess.gaps) == ("number", (), 1)


def test_decimal_mark() -> None:
    assert column_kind(["1,5", "2"]).decimal == ","
    assert column_kind(["1.5", "2"], ",").decimal == "."
    assert column_kind(["1", "2"], ",").decimal == ","


def test_what_names_the_rows_is_an_id() -> None:
    assert column_kind(CUSTOMERS).is_id
    assert column_kind([str(number) for number in range(7, 40)]).is_id
    assert not column_kind(["red", "blue"] * 20).is_id
    assert not column_kind([str(number**2) for number in range(40)]).is_id


def test_one_value_is_a_constant() -> None:
    assert column_kind(["3", "3", ""]).is_constant
    assert not column_kind(["3", "4"]).is_constant


def test_needs_no_torch() -> None:
    program = "import sys, burnlike.data.sources.table_cells; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
