"""Finds code in burnlike/ that opens, replaces, removes or follows files beside the functions whose task that is.

`python -m tools.doors [FOLDER]`, which `make lint` calls, prints each place with what to use instead; its status is 1
if there are any. It finds them by name: writing `open` and `write_text`, `os.replace` and `Path.rename`, `rmtree`,
copies, `realpath` and `resolve`, and patterns of `re` that are not written in the code.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent / "burnlike"

WRITE, REPLACE, REMOVE, COPY, FOLLOW, PATTERN = "write", "replace", "remove", "copy", "follow", "pattern"
REMEDIES = {
    WRITE: "write by burnlike._atomic (replace_file, AtomicFile), what a user names by _outputs.Output",
    REPLACE: "put files in their place by burnlike._atomic, what a user names by _outputs.Output",
    REMOVE: "remove by burnlike._atomic (remove_directory, or a file by the one that wrote it)",
    COPY: "read by _regular_file.read_regular, write by _atomic.replace_file",
    FOLLOW: "open by burnlike._regular_file, which says where a link may lead",
    PATTERN: "write the pattern in the code, escape the text, or bound it where the others do",
}
_NAMES = {
    **dict.fromkeys(("os.O_WRONLY", "os.O_RDWR", "os.O_CREAT", "os.O_APPEND", "os.O_TRUNC", "os.mkfifo"), WRITE),
    **dict.fromkeys(("os.replace", "os.rename", "os.renames", "os.link", "os.symlink", "shutil.move"), REPLACE),
    **dict.fromkeys(("os.remove", "os.unlink", "os.removedirs", "os.truncate", "shutil.rmtree"), REMOVE),
    **dict.fromkeys(("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copyfileobj", "shutil.copytree"), COPY),
    **dict.fromkeys(("os.path.realpath", "os.readlink"), FOLLOW),
}
"""Functions and flags by their full names, wherever they stand."""
_METHODS = {
    **dict.fromkeys(("write_text", "write_bytes", "touch"), WRITE),
    **dict.fromkeys(("symlink_to", "hardlink_to"), REPLACE),
    **dict.fromkeys(("unlink",), REMOVE),
    **dict.fromkeys(("readlink",), FOLLOW),
}
"""Methods of paths that no other class has; see `_method` for `rename`, `replace`, `resolve` and `open`."""
_OPENS = ("open", "io.open")
_COMPILES = {
    f"re.{it}" for it in ("compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
}


ALLOWED: dict[str, tuple[set[str], str]] = {
    "_atomic.py": (set(REMEDIES), "replaces, makes and removes files and directories for all others"),
    "_outputs.py": ({REPLACE, FOLLOW}, "puts the outputs of commands in their place"),
    "_regular_file.py": ({WRITE, FOLLOW}, "opens files that users name"),
    "_patterns.py": ({PATTERN}, "bounds the time of patterns from files"),
    "cli/main.py": ({WRITE}, "gives standard output to /dev/null where its reader is gone"),
    "config/json_schema.py": ({PATTERN}, "names of fields in the code"),
    "config/plain.py": ({PATTERN}, "patterns of types in the code"),
    "config/tree.py": ({FOLLOW}, "tells a file that includes itself"),
    "data/chat/files.py": ({PATTERN}, "a table of words in the code"),
    "data/streams/": ({WRITE}, "shards of the cache, in a new directory, and its lock"),
    "models/weights/table.py": ({PATTERN}, "patterns of the tables in the code"),
    "record/distributed/": (
        {WRITE, REMOVE},
        "parts of other machines, in a new directory, and a file that all look for",
    ),
    "record/formats.py": ({PATTERN}, "a table of patterns in the code"),
    "record/loading/module_code.py": ({REPLACE}, "`rename` is of names of tensors"),
    "record/saving/background.py": ({FOLLOW}, "tells two saves to one file"),
    "record/saving/writing.py": ({FOLLOW}, "names the folder of a link in an error"),
    "record/safetensors/recorder.py": ({REMOVE}, "replaces a set of files by another"),
    "train/checkpoint/": ({FOLLOW}, "the name of a run, and its files but for links out of it"),
    "train/job/launching.py": ({WRITE}, "marks a directory as a run, before ranks lock it"),
    "train/runs/": ({REMOVE, FOLLOW}, "removes half files of a run; the name of a run"),
    "train/view/report/page.py": ({PATTERN}, "a table of patterns in the code"),
}
"""Files and folders of the package with kinds of uses that are theirs, and why."""


class Use(NamedTuple):
    """A place in the code: the file within the package, its line, what is called, and which kind of use that is."""

    file: str
    line: int
    name: str
    kind: str


def uses(folder: Path) -> Iterator[Use]:
    """All uses in the files of a folder, whoever may have them."""
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_bytes(), path)
        names = _imported(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.expr) and (use := _use(node, names)):
                yield Use(path.relative_to(folder).as_posix(), node.lineno, *use)


def _imported(tree: ast.AST) -> dict[str, str]:
    """The full names of modules and functions by what a file calls them."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {it.asname or it.name: it.name for it in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {it.asname or it.name: f"{node.module}.{it.name}" for it in node.names}
    return names


def _full_name(node: ast.AST, names: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and (before := _full_name(node.value, names)):
        return f"{before}.{node.attr}"
    return ""


def _use(node: ast.AST, names: dict[str, str]) -> tuple[str, str] | None:
    if isinstance(node, ast.Name | ast.Attribute) and (name := _full_name(node, names)) in _NAMES:
        return name, _NAMES[name]
    if not isinstance(node, ast.Call):
        return None
    name = _full_name(node.func, names)
    if name in _OPENS:
        return (name, WRITE) if _writes(node, 1) else None
    if name in _COMPILES:
        return None if node.args and _is_fixed(node.args[0], names) else (name, PATTERN)
    return _method(node) if isinstance(node.func, ast.Attribute) and name.split(".")[0] not in ("re", "os") else None


def _method(node: ast.Call) -> tuple[str, str] | None:
    """The use that a call of a method is; texts, configs and records have some of these names with other arguments."""
    assert isinstance(node.func, ast.Attribute)
    name, count = node.func.attr, len(node.args) + len(node.keywords)
    if name in _METHODS:
        return name, _METHODS[name]
    if name in ("rename", "replace") and count == len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
        return name, REPLACE
    if name == "resolve" and not node.args:
        return name, FOLLOW
    return (name, WRITE) if name == "open" and _writes(node, 0) else None


def _writes(node: ast.Call, place: int) -> bool:
    """True if a call of `open` may write; one over a descriptor that stays open does what its owner has chosen."""
    keywords = {it.arg: it.value for it in node.keywords}
    if isinstance(closes := keywords.get("closefd"), ast.Constant) and closes.value is False:
        return False
    mode = keywords.get("mode", node.args[place] if len(node.args) > place else None)
    if mode is None:
        return False
    if place == 0 and not (isinstance(mode, ast.Constant) and isinstance(mode.value, str)):
        return False  # the `open` of another class than Path
    return not isinstance(mode, ast.Constant) or any(it in str(mode.value) for it in "wax+")


def _is_fixed(node: ast.AST, names: dict[str, str]) -> bool:
    """True if a pattern is written in the code; parts of it may be constants, and texts that are escaped."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.JoinedStr):
        return all(_is_fixed(it, names) for it in node.values)
    if isinstance(node, ast.FormattedValue):
        return _is_fixed(node.value, names)
    if isinstance(node, ast.BinOp):
        return _is_fixed(node.left, names) and _is_fixed(node.right, names)
    if isinstance(node, ast.Name | ast.Attribute):
        return (node.id if isinstance(node, ast.Name) else node.attr).isupper()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":
        return all("re.escape" in ast.unparse(it) for it in node.args)
    return isinstance(node, ast.Call) and _full_name(node.func, names) == "re.escape"


def problems(folder: Path) -> list[str]:
    """Uses that are not allowed, and rows of the table that nothing needs, one line each."""
    lines, used = [], set[tuple[str, str]]()
    for use in uses(folder):
        row = next((it for it in ALLOWED if use.file == it or (it.endswith("/") and use.file.startswith(it))), None)
        if row is not None and use.kind in ALLOWED[row][0]:
            used.add((row, use.kind))
        else:
            lines.append(f"{folder.name}/{use.file}:{use.line}: {use.name}: {REMEDIES[use.kind]}")
    for row, (kinds, _) in ALLOWED.items():
        unused = sorted(kind for kind in kinds if (row, kind) not in used and kinds != set(REMEDIES))
        if unused and (folder / row).exists():
            lines.append(f"tools/doors.py: {row}: no use is a {', '.join(unused)} any more; take it out of the table")
    return lines


def main() -> int:
    lines = problems(Path(sys.argv[1]) if sys.argv[1:] else PACKAGE)
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
