"""Hooks of Sphinx: links out of docs, links from code spans to the API, docstrings, llms.txt."""

import inspect
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.domains.python import PyObject
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

from tools.nn_api import signature_of

from . import api, stage
from .docstrings import to_rst

_LOG = logging.getLogger(__name__)
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_FOLDER = re.compile(r"\[([^\]`]*)\]\(([^)#\s:]+)\)")
_FENCE = re.compile(r"(^ *```.*?^ *```|``[^`]+``|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_NEEDLESS = re.compile(
    r'<meta name="(?:viewport" content="width=device-width, initial-scale=1"|docsearch:)[^>]*>\n?'
    r'|<footer class="[^"]*">\s*(?:<div class="prev-next-area">\s*</div>\s*)?</footer>\n?'
)
"""What the pages of the theme have twice or empty."""
_PRE = re.compile(r"(<pre.*?</pre>)", re.DOTALL)
_OF_TORCH = ("nn.", "optim.", "F.", "torch.")


def setup(app: Any) -> None:
    app.connect("source-read", source_read)
    app.connect("autodoc-process-docstring", docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", whole_docstring, priority=600)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-skip-member", skip)
    app.connect("missing-reference", missing_reference)
    app.connect("env-updated", place_names)
    app.connect("html-page-context", template)
    app.connect("build-finished", finished)
    for it in PyObject.doc_field_types:
        if it.name == "variable":
            it.label = "Attributes"
    app.add_post_transform(CodeToApi)


def source_read(app: Any, document: str, content: list[str]) -> None:
    """Links to files outside of docs become those to pages of the site, or downloads; sections get their tables."""
    if file := stage.linked().get(f"{document}.md"):
        where = {file.resolve(): stage.SOURCE / name for name, file in stage.linked().items()}
        text = _FOLDER.sub(lambda it: it[1] if (file.parent / it[2]).is_dir() else it[0], content[0])
        parts = _FENCE.split(text)
        content[0] = "".join(
            part if number % 2 else _LINK.sub(lambda it: _link(it, document, file.parent, where), part)
            for number, part in enumerate(parts)
        )
    documents = app.env.found_docs
    if below := stage.section_pages(sorted(documents)).get(document):
        listed = "\n".join(f"/{it}" for it in below)
        content[0] += f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def _link(found: re.Match[str], document: str, folder: Path, where: dict[Path, Path]) -> str:
    """A link as it has to be in the site."""
    start, target, anchor, end = found.groups(default="")
    if re.match(r"[a-z]+:", target):
        return found[0]
    file, docs, source = Path(os.path.normpath(folder / target)), stage.ROOT / "docs", stage.SOURCE
    place = where.get(file) or source / (os.path.relpath(file, docs) if file.is_relative_to(docs) else "none")
    if not place.exists() and file.is_file():  # of the project: to be downloaded
        place = source / "files" / file.relative_to(stage.ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    elif not place.exists():
        _LOG.warning("a link to what is not there: %s", target, location=document)
    return f"{start}{os.path.relpath(place, (source / document).parent)}{anchor}{end}"


def template(app: Any, page: str, name: str, context: Any, tree: Any) -> str | None:
    """Pages of source code do without the theme, whose frame is larger than most of them."""
    if page in api.pages():
        context["api_package"] = api.package_of(page) or "burnlike"
        context["prev"] = context["next"] = None
    return "source.html" if page.startswith("_modules/") else None


def place_names(app: Any, env: Any) -> None:
    """Pages of names are below the page of their package: for breadcrumbs, and so that Reference is marked.

    They are in no table of contents, which would be drawn anew for each of them.
    """
    for package, found in api.by_package().items():
        below = env.toctree_includes.setdefault(f"reference/api/{package}", [])
        below += [document for it in found if (document := f"reference/api/{it}") not in below]


def docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    lines[:] = to_rst("\n".join(lines)).split("\n")


def whole_docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """That of a property as it is: napoleon takes what stands before its first colon for a type."""
    if isinstance(value, property):
        lines[:] = to_rst(inspect.getdoc(value) or "").split("\n")


def signature(app: Any, what: str, name: str, value: Any, options: Any, given: str, returned: str) -> Any:
    """Configs as one writes them, without the bounds."""
    if what == "class" and api.is_config(value):
        return signature_of(value).removeprefix(value.__name__), None
    return None


def skip(app: Any, what: str, name: str, value: Any, skipped: bool, options: Any) -> bool | None:
    """Fields are in the docstring of their class, and what comes from torch is in torch's documents."""
    is_method = callable(value) or isinstance(value, property | staticmethod | classmethod)
    function = getattr(value, "fget", None) or getattr(value, "__func__", value)
    is_ours = (getattr(function, "__module__", None) or "").startswith("burnlike")
    return True if not is_method or not is_ours or name.startswith("_") else None


def missing_reference(app: Any, env: Any, node: Any, child: Any) -> Any:
    """A class by where it is defined: the public name of it."""
    if node.get("refdomain") == "py" and (full := _PRIVATE().get(node["reftarget"])):
        return _reference(app, env, node["refdoc"], full, child)
    return None


def _PRIVATE() -> dict[str, str]:
    if not _private:
        for full, home in api.homes().items():
            it = api.names()[full]
            _private[f"{getattr(it.value, '__module__', it.module)}.{it.name}"] = home
            _private.setdefault(it.name, home)
    return _private


_private: dict[str, str] = {}


def _reference(app: Any, env: Any, document: str, full: str, child: Any) -> Any:
    found = env.domains["py"].objects.get(full)
    if found is None:
        return None
    return make_refnode(app.builder, document, found.docname, found.node_id, child, full)


class CodeToApi(SphinxPostTransform):
    """A code span that names something public becomes a link to it."""

    default_priority = 400

    def run(self, **_: Any) -> None:
        """Go through the code spans of the document."""
        objects = self.env.domains["py"].objects
        for node in list(self.document.findall(nodes.literal)):
            if isinstance(node.parent, nodes.reference | addnodes.pending_xref | nodes.title):
                continue
            full = self._meant(node.astext(), objects)
            if full and (found := objects.get(full)) and found.docname != self.env.docname:
                node.replace_self(
                    make_refnode(
                        self.app.builder, self.env.docname, found.docname, found.node_id, node.deepcopy(), full
                    )
                )

    def _meant(self, text: str, objects: Any) -> str | None:
        text = re.sub(r"\(.*\)$", "", text)
        if not re.fullmatch(r"[\w.]+", text):
            return None
        if text.startswith("bl."):
            text = f"burnlike.{text[3:]}"
        if text.startswith("burnlike."):
            return api.homes().get(text, text)
        if text.endswith("Error") and (full := f"burnlike.errors.{text}") in objects:
            return full
        if self.env.docname.startswith("reference/api/") and not text.startswith(_OF_TORCH):
            package = self.env.docname.rpartition("/")[2].rpartition(".")[0]
            if (full := f"burnlike.{package}.{text}") in objects:
                return full
            if text[0].isupper() and (full := _PRIVATE().get(text)):
                return full
        return f"burnlike.{text}" if "." in text and not text.startswith(_OF_TORCH) else None


def repaired(page: str) -> str:
    """HTML without indentation, a tenth of it, and without what axe-core finds in that of Sphinx and the theme."""
    page = re.sub(r"\s*\n\s*", "\n", re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL))
    page = _NEEDLESS.sub("", page)
    page = re.sub(r'(<code class="[^"]*">)<span class="pre">([^<]*)</span></code>', r"\1\2</code>", page)
    page = page.replace('<summary><span class="toctree', '<summary aria-label="Pages below"><span class="toctree')
    page = page.replace("<table class=", '<table tabindex="0" class=')  # so that keys can scroll it
    return re.sub(r"<dl>\s*((?:<dd>.*?</dd>\s*)+)</dl>", _lines_of_signature, page)


def _lines_of_signature(found: re.Match[str]) -> str:
    return found[1].replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")


def finished(app: Any, error: Exception | None) -> None:
    """Every public name must have a place; llms.txt lists the pages for programs that read."""
    if error or app.builder.name != "html":
        return
    objects = app.env.domains["py"].objects
    if missing := [full for full, home in api.homes().items() if home not in objects]:
        _LOG.warning("public names without a page: %s", ", ".join(missing))
    titles = {it: node.astext() for it, node in app.env.titles.items()}
    lines = [
        "# burnlike",
        "",
        "> Burn's semantics on PyTorch: typed configs, stable parameter ids, records, native ops.",
        "",
    ]
    whole = []
    for section in stage.SECTIONS:
        lines += [f"## {section.title}", ""]
        for document in stage.section_pages(sorted(titles))[f"{section.folder}/index"]:
            file = stage.SOURCE / f"{document}.md"
            lines.append(
                f"- [{titles[document]}]({f'_sources/{document}.md.txt' if file.exists() else f'{document}.html'})"
            )
            whole += [file.read_text()] if file.exists() else []
        lines.append("")
    out = Path(app.outdir)
    for file in [*out.rglob("*.map"), *(out / "_sources" / "reference").rglob("*.rst.txt")]:
        file.unlink()
    for file in out.rglob("*.html"):
        parts = _PRE.split(file.read_text())
        if loaded := re.findall(r"""(?:src|<link[^>]* href)="(https?://[^"]*)\"""", "".join(parts[::2])):
            _LOG.warning("%s loads %s", file.relative_to(out), loaded)
        file.write_text("".join(it if at % 2 else repaired(it) for at, it in enumerate(parts)))
    navigation = Path(__file__).parent / "static" / "api_navigation.js"
    packages = f"const PACKAGES = {json.dumps(api.by_package())};\n"
    (out / "_static" / "api.js").write_text(packages + navigation.read_text())
    (out / "llms.txt").write_text("\n".join(lines))
    (out / "llms-full.txt").write_text("\n\n".join(whole))
