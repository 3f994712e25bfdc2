"""Writes the pages of docs/notebooks as notebooks of Jupyter, with the outputs and pictures that the pages show.

Named files of a page become cells that write them, commands become lines for the shell. `python -m tools.notebooks`
writes to .cache/notebooks; with `--draw` it first runs each page and keeps its picture in docs/notebooks/images.
"""

import base64
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "notebooks"
TARGET = ROOT / ".cache" / "notebooks"
BLOCK = re.compile(
    r"^```(?P<language>python|yaml|bash)\n(?P<code>.*?)^```\n(?:```\n(?P<output>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)
NAME = re.compile(r"# (\S+\.(?:yaml|py))\n")
PICTURE = re.compile(r"^!\[[^\]]*\]\(images/(\S+)\)\n", re.MULTILINE)


def cells(text: str) -> Iterator[dict[str, Any]]:
    """The cells of a page: what is between its blocks, and the blocks with their outputs."""
    place = 0
    for block in BLOCK.finditer(text):
        yield from _words(text[place : block.start()])
        place, code = block.end(), block["code"]
        if name := NAME.match(code):
            code = f"%%writefile {name[1]}\n{code}"
        elif block["language"] == "bash":
            code = re.sub(r"^(?=\S)", "!", code, flags=re.MULTILINE)
        outputs: list[dict[str, Any]] = []
        if block["output"]:
            outputs.append({"output_type": "stream", "name": "stdout", "text": block["output"]})
        for picture in re.findall(r'savefig\("(\S+)"', code):
            image = base64.b64encode((PAGES / "images" / picture).read_bytes()).decode()
            outputs.append({"output_type": "display_data", "metadata": {}, "data": {"image/png": image}})
        code = code.rstrip("\n")
        yield {"cell_type": "code", "metadata": {}, "execution_count": None, "source": code, "outputs": outputs}
    yield from _words(text[place:])


def _words(text: str) -> Iterator[dict[str, Any]]:
    text = PICTURE.sub("", text).replace("](../", "](../../docs/").strip()
    if text:
        yield {"cell_type": "markdown", "metadata": {}, "source": text}


def notebook(text: str) -> dict[str, Any]:
    """A page as nbformat 4.4 has it."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 4, "metadata": {"kernelspec": kernel}, "cells": [*cells(text)]}


def draw(text: str) -> None:
    """Run a page in an empty folder, and keep the pictures that it shows."""
    program = ""
    with tempfile.TemporaryDirectory() as folder:
        for block in BLOCK.finditer(text):
            code = block["code"]
            if name := NAME.match(code):
                Path(folder, name[1]).write_text(code)
            elif block["language"] == "python":
                program += code
        subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for picture in PICTURE.findall(text):
            (PAGES / "images" / picture).write_bytes(Path(folder, picture).read_bytes())


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text()
        if page.stem == "index":
            continue
        if "--draw" in sys.argv:
            draw(text)
        (TARGET / f"{page.stem}.ipynb").write_text(json.dumps(notebook(text), indent=1))
        print((TARGET / f"{page.stem}.ipynb").relative_to(ROOT))


if __name__ == "__main__":
    main()
