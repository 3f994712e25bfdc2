"""The pictures of the documents are what `python -m tools.pictures` draws, small, and told in words."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.pictures.__main__ import IMAGES, NAMES, drawn, main
from tools.pictures.svg import DARK, LIGHT, OPACITY, TINTS

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


@pytest.mark.parametrize(("colors", "opacity"), [(LIGHT, OPACITY[False]), (DARK, OPACITY[True])])
def test_texts_stand_out_from_their_ground(colors: dict[str, str], opacity: float) -> None:
    """By the ratio of WCAG 2.2, 1.4.3."""

    def of(name: str) -> list[float]:
        return [int(colors[name][place : place + 2], 16) / 255 for place in (1, 3, 5)]

    def light(color: list[float]) -> float:
        parts = [it / 12.92 if it <= 0.04045 else ((it + 0.055) / 1.055) ** 2.4 for it in color]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05

    ground = of("ground")
    pairs = [("ink", ground), ("soft", ground), ("ink", of("plain")), ("soft", of("plain"))]
    for tint in TINTS:
        below = [opacity * a + (1 - opacity) * b for a, b in zip(of(tint), ground, strict=True)]
        pairs += [(tint, ground), (tint, below), ("ink", below)]
    for name, below in pairs:
        darker, lighter = sorted((light(of(name)), light(below)))
        assert lighter / darker >= 4.5, name


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
