"""Fill .cache/site-source with what the site is built of: copies of the pages of docs, and pages that are generated.

`python -m tools.site.stage`. Pages that did not change keep their times, so that a second build reads only the others.
"""

import fnmatch
import os
import re
import shutil
from pathlib import Path

from . import api, configs, figures, programs
from .contents import PROJECT, SECTIONS, WITH_PAGES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / ".cache" / "site-source"
HOME = "# burnlike\n\nBurn's semantics on PyTorch.\n"


def linked() -> dict[str, Path]:
    """The pages that people write: where each is in the site, and its file."""
    docs = ROOT / "docs"
    found = {it.relative_to(docs).as_posix(): it for it in sorted(docs.rglob("*.md")) if "reference/api" not in str(it)}
    for stem, name in PROJECT.items():
        if (file := ROOT / f"{stem}.md").exists():
            found[f"project/{name}.md"] = file
    return found


def generated() -> dict[str, str]:
    """The pages that are made here: where each is in the site, and its text."""
    found = {f"{document}.rst": api.page(document) for document in api.pages()}
    packages = ("", *api.PACKAGES)
    for package in packages:
        name = f"reference/api/{package or 'burnlike'}.rst"
        if name not in found:
            found[name] = api.package_page(package)
    entries = [f"reference/api/{package or 'burnlike'}" for package in packages]
    purposes = dict(zip(entries, (api.PURPOSES[package] for package in packages), strict=True))
    about = (
        "Every public name, by the package that it is imported from. `import burnlike as bl` is how the pages call it."
    )
    found["reference/api/index.rst"] = api.index("API", about, entries, purposes)
    return found | configs.pages() | programs.pages() | figures.pages()


def section_pages(documents: list[str]) -> dict[str, list[str]]:
    """The documents of each section's table of contents by the section's own document."""
    left = [
        it for it in documents if not it.startswith(("reference/api/", "reference/configs/")) or it.endswith("/index")
    ]
    found: dict[str, list[str]] = {}
    for section in SECTIONS:
        own = f"{section.folder}/index"
        matches = (it for pattern in section.pages.split() for it in fnmatch.filter(left, pattern) if it != own)
        found[own] = list(dict.fromkeys(matches))
    for index in WITH_PAGES:
        found[index] = [it for it in left if it.startswith(f"{index.removesuffix('/index')}/") and it != index]
    found["index"] = [f"{section.folder}/index" for section in SECTIONS]
    return found


def first_words(text: str) -> tuple[str, str]:
    """The title of a page and the first sentence of it, if it begins with one."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    blocks = [it for it in re.split(r"\n\s*\n", text.strip()) if not it.startswith("..")]
    title, paragraph = blocks[0].split("\n")[0], " ".join("".join(blocks[1:2]).split())
    paragraph = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    is_sentence = re.match(r"[A-Z`]", paragraph) is not None and not paragraph.startswith("```")
    return title.lstrip("# "), f"{paragraph.split('. ')[0].rstrip('.:')}." if is_sentence else ""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main() -> None:
    written = {SOURCE / name: text for name, text in generated().items()}
    links = {SOURCE / name: file for name, file in linked().items()}
    documents = [it.relative_to(SOURCE).with_suffix("").as_posix() for it in [*links, *written]]
    contents = section_pages(documents)
    if SOURCE / "index.md" not in links:
        written[SOURCE / "index.md"] = HOME
    for section in SECTIONS:
        path = SOURCE / section.folder / "index.md"
        if path not in links and path not in written:
            lines = [f"# {section.title}", "", section.about, ""]
            for document in contents[f"{section.folder}/index"]:
                place = next(it for end in (".md", ".rst") if (it := SOURCE / f"{document}{end}") in {*links, *written})
                title, words = first_words(links[place].read_text() if place in links else written[place])
                lines.append(f"- [{title}]({os.path.relpath(place, path.parent)}){': ' + words if words else ''}")
            written[path] = "\n".join(lines) + "\n"
    for path, text in written.items():
        write(path, text)
    for path, file in links.items():
        text = file.read_text()
        write(path, text.replace("# burnlike\n", "# README\n", 1) if file.name == "README.md" else text)
    for file in (ROOT / "docs").rglob("*.*"):
        if file.suffix != ".md" and file.is_file():
            place = SOURCE / file.relative_to(ROOT / "docs")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, place)
    for path in [*SOURCE.rglob("*.md"), *SOURCE.rglob("*.rst")]:
        if path not in written and path not in links:
            path.unlink()


if __name__ == "__main__":
    main()
