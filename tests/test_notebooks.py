"""The pages of docs/notebooks as notebooks of Jupyter."""

import base64
import json
import re

import pytest

from tools.notebooks import PAGES, notebook

NAMES = sorted(it.stem for it in PAGES.glob("*.md") if it.stem != "index")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_a_notebook_with_its_outputs_and_ends_in_its_picture(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text()
    made = json.loads(json.dumps(notebook(page)))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 4)
    codes = [it for it in made["cells"] if it["cell_type"] == "code"]
    assert len(codes) == len(re.findall(r"^```(?:python|yaml|bash)$", page, re.MULTILINE))
    for cell in codes:
        if cell["source"][0] not in "%!":
            compile(cell["source"], name, "exec")
    shown = [out["text"] for cell in codes for out in cell["outputs"] if out["output_type"] == "stream"]
    assert shown == re.findall(r"^```\n```\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    image = base64.b64decode(codes[-1]["outputs"][-1]["data"]["image/png"])
    assert image == (PAGES / "images" / f"{name}.png").read_bytes()
    words = "".join(it["source"] for it in made["cells"] if it["cell_type"] == "markdown")
    assert "```" not in words
    assert "](images/" not in words


def test_named_files_are_written_and_commands_run_by_the_shell() -> None:
    page = "```yaml\n# job.yaml\na: 1\n```\nThen [this](../data.md):\n```bash\nburnlike runs\n```\n```\nok\n```\n"
    written, words, command = notebook(page)["cells"]
    assert written["source"] == "%%writefile job.yaml\n# job.yaml\na: 1"
    assert words["source"] == "Then [this](../../docs/data.md):"
    assert (command["source"], command["outputs"][0]["text"]) == ("!burnlike runs", "ok\n")


def test_the_list_of_notebooks_has_each() -> None:
    index = (PAGES / "index.md").read_text()
    assert sorted(re.findall(r"\]\((\w+)\.md\)", index)) == NAMES
