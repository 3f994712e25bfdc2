"""Every file that a user or a stranger names is opened by `read_regular`: a pipe never blocks, a device never ends."""

import ast
from pathlib import Path

import burnlike

ROOT = Path(burnlike.__file__).parent
METHODS = ("read_bytes", "read_text", "fromfile", "loadtxt")
OWN = {
    "_torch_compat/onednn.py": "/proc",
    "_atomic.py": "temporary files and directories with names of its own",
    "_env.py": "/proc",
    "_lazy.py": "burnlike's own stubs",
    "_memory.py": "/proc",
    "_regular_file.py": "the one place",
    "cli/commands/init.py": "the shipped configs",
    "cli/main.py": "/dev/null",
    "cli/commands/predict.py": "a descriptor",
    "config/shipped.py": "the shipped configs",
    "data/chat/filling.py": "/proc",
    "data/streams/files.py": "the lock of a directory of its own; looks at what it opened, by its size and time",
    "models/by_path/catalog.py": "the installed transformers' source",
    "record/distributed/together.py": "files of a checkpoint, which processes have written themselves",
    "record/bytes/source.py": "looks at what it opened in the same way",
    "record/safetensors/recorder.py": "descriptors and directories",
    "record/saving/writing.py": "a descriptor",
    "train/export/hugging_face.py": "files that it has written itself",
    "train/export/programs.py": "a descriptor",
    "train/job/device.py": "files that it has written itself",
    "train/runs/environment.py": "/proc",
    "train/runs/run_dir.py": "/dev/null",
    "train/view/loggers.py": "the config of the run that it has locked",
    "train/view/report/page.py": "burnlike's own assets",
    "train/view/renderers.py": "/proc",
}
"""Files that open what nobody else can name, and what this is."""


def opened(file: Path) -> list[int]:
    """The lines that open a file by something else than `read_regular`."""
    calls = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if _opens(call)]


def _opens(call: ast.Call) -> bool:
    match call.func:
        case ast.Name("open") | ast.Attribute(ast.Name("os" | "io" | "gzip" | "tokenize"), "open"):
            return True
        case ast.Attribute(attr=name):
            return name in METHODS and not (name == "read_bytes" and call.args)  # a backend has `read_bytes(tensor)`
    return False


def test_files_are_opened_in_one_place() -> None:
    found = {str(file.relative_to(ROOT)): lines for file in sorted(ROOT.rglob("*.py")) if (lines := opened(file))}
    unknown = {name: lines for name, lines in found.items() if name not in OWN}
    assert not unknown, "use read_regular or open_regular of burnlike/_regular_file.py"
    assert found.keys() == OWN.keys(), "a reason that no file needs any more"
