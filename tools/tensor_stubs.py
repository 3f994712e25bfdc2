"""Write the stubs of modules whose functions a table makes: `python -m tools.tensor_stubs`, or `--check` to compare.

Beside a module of burnlike/tensor that has families of rows (`core/table.py`) or `@overloads` stands a `.pyi` with the
types and the docstrings of its public names: of rows from the functions that they made, of the rest from the source.
"""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from burnlike.tensor.core import templates
from burnlike.tensor.core.table import expanded_overloads

ROOT = Path(__file__).parents[1]
TENSOR = ROOT / "burnlike" / "tensor"
HEAD = "# Written by `make docs` from {name} (tools/tensor_stubs.py): do not edit.\n"
# The typed `==` gives a tensor, and so differs from that of object.
HEAD += "# pyright: reportIncompatibleMethodOverride=false\n"
USES = re.compile(r"^from \.+core\.table import", re.MULTILINE)
SHARED = ("core.base", "core.kinds")
"""Modules of names that signatures of rows use, which the module itself need not import."""


def modules() -> list[Path]:
    """The modules that have a stub."""
    return [path for path in sorted(TENSOR.rglob("*.py")) if USES.search(path.read_text())]


class _Unquoted(ast.NodeTransformer):
    """Annotations without quotes."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node


def unquoted(annotation: ast.expr) -> ast.expr:
    """An annotation without quotes; the texts in `Literal["a"]` keep theirs."""
    literal = isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal"
    return annotation if literal else _Unquoted().visit(annotation)


def head_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The line that begins a function."""
    arguments = node.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument and argument.annotation:
            argument.annotation = unquoted(argument.annotation)
    returns = f" -> {ast.unparse(unquoted(node.returns))}" if node.returns else ""
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{kind} {node.name}({ast.unparse(arguments)}){returns}:"


def with_doc(head: str, doc: str | None) -> list[str]:
    """A function or class of a stub: its head, and its docstring as the body."""
    if not doc:
        return [head + " ..."]
    if len(one_line := " ".join(doc.split())) < 100:
        return [head, f'    """{one_line}"""']
    lines: list[str] = []
    for line in doc.splitlines():
        lines += textwrap.wrap(line, 110, break_long_words=False, break_on_hyphens=False) if len(line) > 110 else [line]
    text = "\n".join(lines).replace("\\", "\\\\")
    body = f'"""{text}\n"""' if len(lines) > 1 else f'"""{text}"""'
    return [head, textwrap.indent(body, "    ")]


def made_function(name: str, function: Any) -> list[str]:
    """A function that a row made."""
    signature = re.sub(r"'([^']*)'", r"\1", str(inspect.signature(function)))
    return with_doc(f"def {name}{signature}:", inspect.getdoc(function))


def made_names(namespace: dict[str, Any]) -> Iterator[str]:
    """The functions that rows made, and their aliases."""
    for name, value in namespace.items():
        if inspect.isfunction(value) and value.__code__.co_filename == templates.__file__:
            yield from [f"{name} = {value.__name__}"] if value.__name__ != name else made_function(name, value)


def written_function(node: ast.FunctionDef | ast.AsyncFunctionDef, value: Any) -> list[str]:
    """A function whose body is written, with its overloads if those are a decorator's."""
    decorators = [ast.unparse(it) for it in node.decorator_list]
    kept = [f"@{it}" for it in decorators if it in ("staticmethod", "classmethod", "property", "overload")]
    doc = ast.get_docstring(node)
    forms = expanded_overloads(getattr(value, "__func__", value))
    if forms:
        heads = [f"def {node.name}{form}:" for form in forms]
        last = with_doc(heads[-1], doc)
        lines = [line for head in heads[:-1] for line in ("@overload", *kept, head + " ...")]
        return [*lines, "@overload", *kept, *last]
    return [*kept, *with_doc(head_of(node), doc)]


def class_of(node: ast.ClassDef, cls: Any, source: str) -> list[str]:
    """A class: its docstring, what rows made, and what it writes itself."""
    lines = [f'"""{ast.get_docstring(node)}"""', *made_names(vars(cls))]
    overloaded: set[str] = set()
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            form = any(ast.unparse(it) == "overload" for it in part.decorator_list)
            overloaded |= {part.name} if form else set()
            if form or part.name not in overloaded:
                lines += written_function(part, vars(cls).get(part.name))
            elif doc := ast.get_docstring(part):  # hovering shows that of an overload: the last one's
                last = lines.pop().removesuffix(" ...")
                lines += with_doc(last, doc)
        elif isinstance(part, ast.Assign | ast.AnnAssign) and "__slots__" not in ast.unparse(part):
            lines.append(ast.get_source_segment(source, part) or "")
    bases = ", ".join(map(ast.unparse, node.bases))
    decorators = [f"@{text}" for it in node.decorator_list if not (text := ast.unparse(it)).startswith("methods(")]
    return [*decorators, f"class {node.name}({bases}):", *(textwrap.indent(line, "    ") for line in lines)]


def imports_of(text: str, written: dict[str, str], level: str) -> set[str]:
    """The imports of the names that the text of a stub uses: those that the module writes, or of the shared modules."""
    tree = ast.parse(text)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used -= {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    used -= {ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)}
    known_imports = {
        "Any": "from typing import Any",
        "overload": "from typing import overload",
        "Sequence": "from collections.abc import Sequence",
        "torch": "import torch",
    }
    for owner in SHARED:
        names = vars(importlib.import_module(f"burnlike.tensor.{owner}"))
        known_imports |= {name: f"from {level}{owner} import {name}" for name in names if name not in known_imports}
    known_imports |= written | {"Tensor": f"from {level}tensor import Tensor"}
    return {known_imports[name] for name in used if name in known_imports}


def stub_of(path: Path) -> str:
    """The text of the stub of a module."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    module = importlib.import_module(name)
    source = path.read_text()
    tree = ast.parse(source)
    lines: list[str] = []
    imports: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            where = "." * node.level + (node.module or "")
            for it in node.names:
                text = it.name if it.asname is None else f"{it.name} as {it.asname}"
                imports[it.asname or it.name] = f"from {where} import {text}"
        elif isinstance(node, ast.Import):
            imports |= {it.name: f"import {it.name}" for it in node.names}
        elif isinstance(node, ast.ClassDef):
            lines += class_of(node, getattr(module, node.name), source)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("_"):
                lines += written_function(node, getattr(module, node.name))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and (text := ast.get_source_segment(source, node)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and (isinstance(node, ast.AnnAssign) or "TypeVar(" in text):
                lines.append(text)
        elif isinstance(node, ast.Expr) and ast.unparse(node).startswith("functions(__name__"):
            lines += made_names(vars(module))
    text = "\n".join(lines)
    head = sorted(imports_of(text, imports, "." * len(path.relative_to(TENSOR).parts)))
    doc = ast.get_docstring(tree) or ""
    return formatted(HEAD.format(name=path.name) + f'"""{doc}"""\n' + "\n".join(head) + "\n" + text + "\n", path)


def formatted(text: str, path: Path) -> str:
    """The text as `make format` would leave it."""
    for command in (["check", "--fix-only", "--exit-zero", "--quiet", "--select", "I"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path.with_suffix(".pyi")), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = done.stdout
    return text


def main(arguments: list[str]) -> int:
    """Write the stubs, or with `--check` name those that are stale; the status is 1 if there are any."""
    stale: list[Path] = []
    for path in modules():
        stub, text = path.with_suffix(".pyi"), stub_of(path)
        if not stub.exists() or stub.read_text() != text:
            stale.append(stub.relative_to(ROOT))
            if "--check" not in arguments:
                stub.write_text(text)
    if "--check" in arguments and stale:
        print(*(f"{path} is stale; run `make docs`" for path in stale), sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
