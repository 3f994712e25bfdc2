"""What `make docs-site` builds the site of: pages of public names, configs, commands, errors and support."""

import importlib
import inspect
from pathlib import Path

import pytest
import torch

import burnlike
from burnlike.errors import BurnlikeError
from tools import support
from tools.pages import DOCS
from tools.site import api, configs, programs, stage
from tools.site.docstrings import to_rst


def public_names() -> set[str]:
    """What the packages list that list their names, as one writes it, but for packages and modules."""
    root = Path(burnlike.__file__).parent
    packages = [it.parent.relative_to(root.parent).as_posix().replace("/", ".") for it in root.rglob("__init__.pyi")]
    modules = map(importlib.import_module, [*packages, "burnlike.config", "burnlike.ops"])
    names = ((f"{it.__name__}.{name}", getattr(it, name)) for it in modules for name in it.__all__)
    return {name for name, value in names if not inspect.ismodule(value)}


def test_every_public_name_has_a_page_with_text() -> None:
    described = {it.full for them in api.pages().values() for it in them}
    assert sorted(it for it in public_names() if api.homes().get(it) not in described) == []
    assert sorted(it for it in described if not api.about(api.names()[it])) == []


def test_the_example_of_each_config_is_read() -> None:
    classes = [cls for _, _, found in configs.by_page().values() for cls in found]
    assert len(classes) == len(set(classes)) > 200
    for cls in classes:
        cls.from_yaml(configs.example(cls))


def test_every_error_has_what_to_do() -> None:
    text = (DOCS / "reference" / "errors.md").read_text()
    errors = [it for it in api.names().values() if isinstance(it.value, type) and issubclass(it.value, BaseException)]
    assert [it.name for it in errors if f"| `{it.name}` |" not in text and it.value is not BurnlikeError] == []


def test_every_command_has_its_arguments() -> None:
    (page,) = programs.pages().values()
    assert "## train\n\nTrain a model from a YAML config.\n" in page
    assert "| `--set KEY=VALUE\\|~KEY` | set a value of the config" in page


@pytest.mark.parametrize("name", ["torch.md", "versions.md"])
def test_the_pages_of_support_are_what_the_code_says(name: str) -> None:
    pinned = (DOCS.parent / "requirements-torch.lock").read_text()
    if f"torch=={torch.__version__.partition('+')[0]}" not in pinned:
        pytest.skip("the page is of the pinned torch")
    assert (DOCS / "support" / name).read_text() == support.pages()[name], "run `make docs`"


def test_every_page_is_in_one_section() -> None:
    documents = [name.removesuffix(".md") for name in stage.linked()]
    sections = [it for found in stage.section_pages(documents).values() for it in found if it in documents]
    assert sorted({*documents} - {*sections} - {"index"}) == []
    assert len(sections) == len(set(sections))


@pytest.mark.parametrize(
    ("markdown", "rst"),
    [
        ("y = `a * b`, `Tensor`s * 2, x_ and h_(t)", "y = ``a * b``, ``Tensor``\\ s \\* 2, x\\_ and h\\_(t)"),
        ("Two:\n* `a`\n* b", "Two:\n\n* ``a``\n* b"),
        ("x.\nTorch: `F.relu`, but\n    in place.\nMore.", "x.\n\nTorch: ``F.relu``, but in place.\nMore."),
        ("Say:\n\n```yaml\na: 1\n```\n\nEnd.", "Say:\n\n\n\n.. code-block:: yaml\n\n   a: 1\n\n\n\nEnd."),
        (">>> a * b\n4", ">>> a * b\n4"),
    ],
)  # fmt: skip
def test_docstrings_become_restructured_text(markdown: str, rst: str) -> None:
    assert to_rst(markdown) == rst
