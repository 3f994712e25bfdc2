"""Tests of the lint of sizes: bounds are read from the page, and parts above them are told."""

from tools.size import bounds, problems, sizes

PAGE = """# Page

| `other/` | 1 |

## Size

| part | bound | |
| --- | --- | --- |
| `a/` | 1,200 | x |
| `*.py` | 7 | |

## Next

| `b/` | 9 | |
"""


def test_bounds_are_those_of_the_section() -> None:
    assert bounds(PAGE) == {"a/": 1200, "*.py": 7}


def test_a_part_above_its_bound_or_without_one_is_a_problem() -> None:
    assert problems({"a/": 1200, "*.py": 7}, bounds(PAGE)) == []
    above, without = problems({"a/": 1201, "*.py": 7, "new/": 1}, bounds(PAGE))
    assert above.startswith("a/: 1,201 lines, 1,200 are allowed")
    assert without == "new/: has no row in the table of sizes"
    assert problems({"a/": 1}, bounds(PAGE)) == ["*.py: is in the table of sizes, and no part"]


def test_the_parts_are_the_folders_of_the_package() -> None:
    counted = sizes()
    assert counted["tensor/"] > 1000
    assert counted["*.py"] > 100
    assert "configs/" not in counted
