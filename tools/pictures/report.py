"""The top of the report of a real run: the page that `burnlike report` writes, in an SVG."""

import json
import re
import tempfile
from pathlib import Path

from burnlike.train.runs.run_files import read_run
from burnlike.train.view.report.page import report_page

from .recorded import RUN, facts, lines
from .svg import Picture

_WIDTH, _HEIGHT = 560, 780


def draw() -> Picture:
    page = _page()
    (css,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    (main,) = re.findall(r"<main>.*</main>", page, re.DOTALL)
    main = main[: main.index('<section id="values">')] + "</main>"
    main = main.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL).replace(":root", "svg").replace("body {", ".body {")
    title = "The report of a run: best values, and curves of loss and accuracy"
    picture = Picture(title, _HEIGHT, _WIDTH, re.sub(r"\s+", " ", css))
    picture.raw(
        f'<foreignObject x="2" y="2" width="{_WIDTH - 4}" height="{_HEIGHT - 4}">'
        f'<div xmlns="http://www.w3.org/1999/xhtml" class="body">{main}</div></foreignObject>'
    )
    return picture


def _page() -> str:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "digits"
        run.mkdir()
        for name in ("config.yaml", "log.txt", "results.json"):
            (run / name).write_text((RUN / name).read_text(encoding="utf-8"), encoding="utf-8")
        (run / "metrics.jsonl").write_text("".join(f"{json.dumps(it)}\n" for it in lines()), encoding="utf-8")
        started = {"started": facts("environment")["started"]}
        (run / "environment.json").write_text(json.dumps(started), encoding="utf-8")
        return report_page([read_run(run)])
