"""The pictures of the documents are what `python -m tools.pictures` draws, small, and told in words."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.pictures.__main__ import IMAGES, NAMES, drawn, main

ROOT = Path(__file__).parents[1]
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+\.svg)\)")


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_what_is_drawn(name: str) -> None:
    text = drawn(name)
    assert (IMAGES / f"{name}.svg").read_text() == text, "run `python -m tools.pictures`"
    assert len(text) < 100_000
    picture = ElementTree.fromstring(text)
    title = picture.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert len(title.text or "") > 20
    assert {*re.findall(r"https?://[^\"' )]*", text)} <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    # A terminal is dark, and moves only where the reader wants it.
    assert f"prefers-{'reduced-motion' if name == 'live' else 'color-scheme'}" in text


def test_a_stale_picture_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tools.pictures.__main__.IMAGES", tmp_path)
    assert main(["--check", "ids"]) == 1
    assert "ids.svg is stale" in capsys.readouterr().err
    assert main(["ids"]) == main(["--check", "ids"]) == 0


def test_each_picture_is_shown_and_told_in_words() -> None:
    shown: dict[str, int] = {}
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")):
        for words, path in IMAGE.findall(page.read_text()):
            file = (page.parent / path).resolve()
            if file.parent == IMAGES:
                assert file.exists(), f"{page.name}: {path}"
                assert len(words) > 60, f"{page.name}: {path} needs a text for those who don't see it"
                shown[file.stem] = shown.get(file.stem, 0) + 1
    assert shown.keys() == {*NAMES}
