import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from burnlike import __version__
from burnlike.cli import main as cli
from burnlike.errors import BurnlikeError, ConfigError, Problem, RecordIOError

from ..processes import HANGS_S

ROOT = Path(__file__).parents[2]


def burnlike(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "burnlike", *arguments], capture_output=True, text=True, cwd=ROOT, check=False, **options
    )


@pytest.fixture
def command(monkeypatch):
    """Puts a function in the place of all commands: `main(["any"])` runs it."""

    def install(run):
        module = types.ModuleType("burnlike_test_command")
        module.add_arguments = lambda parser: parser.add_argument("files", nargs="*")
        module.run = run
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(cli, "COMMANDS", (cli.Command("any", module.__name__, "do anything"),))

    return install


def raising(error):
    def run(args):
        raise error

    return run


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"burnlike {__version__}\n"


def test_help_lists_every_command_and_imports_none():
    code = (
        "import sys\nfrom burnlike.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "print(sorted(name for name in sys.modules if name.startswith('burnlike.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    guide = (ROOT / "docs" / "training.md").read_text()
    for command in cli.COMMANDS:
        assert f"\n    {command.name} " in done.stdout.replace("\n                 ", " ")
        assert f"burnlike {command.name}" in guide, "docs/training.md lists the commands"
    assert done.stdout.endswith("['burnlike._lazy', 'burnlike.cli', 'burnlike.cli.main', 'burnlike.errors']\n")


def test_every_command_has_a_module_and_its_own_help():
    for command in cli.COMMANDS:
        done = burnlike(command.name, "--help")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"usage: burnlike {command.name}")
        assert "--debug" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["--nonsense"], ["check"], ["check", "--nonsense", "x"]])
def test_bad_usage_is_status_2_and_says_how_to_use_it(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: burnlike")


def test_the_status_of_a_command_is_handed_on(command):
    command(lambda args: 7)
    assert cli.main(["any"]) == 7


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BurnlikeError("expected this, got that"), "burnlike: error: expected this, got that\n"),
        (RecordIOError("x.safetensors: no such file"), "burnlike: error: x.safetensors: no such file\n"),
        (PermissionError(13, "Permission denied", "/x/y"), "burnlike: error: /x/y: Permission denied\n"),
        (OSError(28, "No space left on device"), "burnlike: error: No space left on device\n"),
        (ConfigError.of([Problem("no such file", source="f.yaml")]), "burnlike: error: f.yaml: no such file\n"),
        (
            ConfigError.of([Problem("wrong", "a.b", "f.yaml", 3, 4)]),
            "f.yaml:3:4: a.b: wrong\nburnlike: error: 1 mistake in the config\n",
        ),
        (
            ConfigError.of([Problem("two", "b", "f.yaml", 3, 4), Problem("one", "a", "f.yaml", 1, 2)]),
            "f.yaml:1:2: a: one\nf.yaml:3:4: b: two\nburnlike: error: 2 mistakes in the config\n",
        ),
    ],
)
def test_an_error_is_a_message_and_status_2(command, capsys, error, message):
    command(raising(error))
    assert cli.main(["any"]) == 2
    assert capsys.readouterr() == ("", message)


@pytest.mark.parametrize("arguments", [["--debug", "any", "x"], ["any", "--debug", "x"], ["any", "x", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(command, capsys, arguments):
    command(raising(BurnlikeError("bad")))
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.endswith("burnlike: error: bad\n")


def test_a_bug_keeps_its_traceback(command):
    command(raising(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError):
        cli.main(["any"])


def test_an_interrupt_is_status_130(command, capsys):
    command(raising(KeyboardInterrupt()))
    assert cli.main(["any"]) == 130
    assert capsys.readouterr().err == "burnlike: interrupted\n"


def test_a_real_interrupt_is_status_130_without_a_traceback():
    code = (
        "import sys, types\nfrom burnlike.cli import main as cli\n"
        "import time\nmodule = types.ModuleType('slow')\nmodule.add_arguments = lambda parser: None\n"
        "def run(args):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "module.run = run\nsys.modules['slow'] = module\ncli.COMMANDS = (cli.Command('slow', 'slow', 'sleep'),)\n"
        "sys.exit(cli.main(['slow']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=HANGS_S) == ("", "burnlike: interrupted\n")
    assert process.returncode == 130


def test_a_closed_pipe_is_silent():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "burnlike", "schema"], stdout=closed, stderr=subprocess.PIPE, cwd=ROOT, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_output_that_the_terminal_can_not_show_is_escaped(tmp_path):
    path = tmp_path / "ä.yaml"
    path.write_text("ö: 1")
    done = burnlike("check", str(path), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 2
    assert "\\xe4.yaml:1:1: \\xf6: unknown key" in done.stdout
    assert done.stderr == ""


def test_codes_for_terminals_in_messages_are_shown_not_sent(command, capsys):
    command(raising(RecordIOError("a\x1b[31m\x9b: b\nc\r")))
    assert cli.main(["any"]) == 2
    assert capsys.readouterr().err == "burnlike: error: a\\x1b[31m\\x9b: b\nc\\r\n"
    assert cli.main(["any", "--debug"]) == 2
    assert all(it.isprintable() or it == "\n" for it in capsys.readouterr().err)


def test_output_that_is_closed_is_no_error():
    done = subprocess.run(
        ["sh", "-c", '"$0" -m burnlike schema --list >&-', sys.executable], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [["schema", "--list"], ["schema", "--help"], ["diff", "a.safetensors", "b.safetensors"], ["check", "wrong.yaml"]],
    ids=" ".join,
)
def test_output_that_can_not_be_written_is_an_error_of_its_own(tmp_path, arguments):
    """Not a traceback, and not the status 1 by which `diff` says that records differ."""
    import torch
    from safetensors.torch import save_file

    for name in "ab":
        save_file({"x": torch.zeros(2)}, tmp_path / f"{name}.safetensors")
    (tmp_path / "wrong.yaml").write_text("ö: 1")
    for stream, message in (
        (">", "burnlike: error: standard output can't be written: No space left on device\n"),
        ("2>", ""),
    ):
        done = subprocess.run(
            ["sh", "-c", f'exec "$0" -m burnlike "$@" {stream} /dev/full', sys.executable, *arguments],
            capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.stderr == message
        assert done.returncode == (2 if stream == ">" or arguments[0] == "check" else 0)
