"""What GitHub runs and asks: the checks of .ci/run, pinned actions, the Pythons of the metadata, forms that load."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


def workflow(name: str) -> Any:
    return yaml.safe_load((GITHUB / "workflows" / f"{name}.yml").read_text())


def targets_of(name: str) -> list[str]:
    """The targets and variables of make in a workflow's matrix."""
    (matrix,) = workflow(name)["jobs"]["checks"]["strategy"]["matrix"].values()
    return " ".join(matrix).split()


def targets_of_the_script() -> list[str]:
    words = " ".join(re.findall(r"^make (.*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)).split()
    return [word for word in words if not word.startswith("-") and word != "build"]


def test_ci_runs_the_targets_of_the_script() -> None:
    assert sorted(targets_of("ci")) == sorted(targets_of_the_script())


def test_tests_that_no_change_waits_for_run_every_week() -> None:
    """All but those that need a GPU, which GitHub's machines lack, or another torch, which the release check runs."""
    makefile = (ROOT / "Makefile").read_text()
    tests = {*re.findall(r"^(test[\w-]*|gpu-check):", makefile, re.MULTILINE)}
    without_a_place = {"test-cuda", "gpu-check", "test-torch"}
    assert without_a_place <= tests
    tests -= without_a_place
    assert tests
    assert tests - {*targets_of_the_script()} <= {*targets_of("weekly")}


def test_each_marker_that_the_suite_leaves_out_has_a_target() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    left_out = re.findall(r"not (\w+)", options["addopts"])
    makefile = (ROOT / "Makefile").read_text()
    assert left_out
    assert [marker for marker in left_out if not re.search(rf'-m "?({marker}\b|[^"\n]*\b{marker}\b)', makefile)] == []


def test_all_that_runs_burn_lies_where_its_targets_look() -> None:
    marked = {it for it in (ROOT / "tests").rglob("*.py") if re.search(r"mark\.burn(_train)?\b", it.read_text())}
    assert marked
    assert [it for it in marked if "burn" not in it.relative_to(ROOT / "tests").parts[:1]] == []
    targets = re.findall(r"^test-burn.*:.*\n\t.*", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [it.endswith(" tests/burn") for it in targets] == [True, True]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_tokens_read_only(path: Path) -> None:
    text = path.read_text()
    used = re.findall(r"uses: (.*)$", text, re.MULTILINE)
    assert used
    assert [it for it in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", it)] == []
    loaded = yaml.safe_load(text)
    assert loaded["permissions"] == {"contents": "read"}
    scripts = [step.get("run", "") for job in loaded["jobs"].values() for step in job["steps"]]
    assert not [it for it in scripts if "${{" in it], "a script takes what others wrote by `env:` alone"


def test_a_release_is_checked_with_each_python_of_the_metadata_and_the_oldest_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    pairs = [pair.split(":") for pair in workflow("release")["jobs"]["check"]["strategy"]["matrix"]["pair"]]
    assert [python for python, _ in pairs] == known
    (oldest,) = re.findall(r"torch>=(\S+)", " ".join(project["dependencies"]))
    assert f"{oldest}.0" in [torch for _, torch in pairs]
    first, last = (int(it.partition(".")[2]) for it in (known[0], known[-1]))
    assert project["requires-python"] == f">=3.{first},<3.{last + 1}"


@pytest.mark.parametrize("name", ["bug", "performance", "question"])
def test_forms_of_issues_have_what_github_needs(name: str) -> None:
    form = yaml.safe_load((GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
    assert {"name", "description", "body"} <= form.keys()
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert "burnlike doctor" in str(form)
