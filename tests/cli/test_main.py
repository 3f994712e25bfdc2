"""The command line as a whole, `completion`, `doctor`, `init`, and configs of the user's own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import burnlike as bl
from burnlike import __version__
from burnlike.cli import main as cli
from burnlike.cli.commands import check, doctor, init
from burnlike.cli.main import COMMANDS, main
from burnlike.config import ModuleConfig, roles
from burnlike.config.document import parse_plain
from burnlike.config.json_schema import json_schema
from burnlike.config.shipped import shipped_configs
from burnlike.errors import ArgumentError, BurnlikeError, ConfigError, Problem, RecordIOError
from burnlike.train.job.configs import TrainConfig

from ..config.schema_validator import is_valid
from ..processes import HANGS_S
from .commands import run

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
    guide = (ROOT / "docs" / "training" / "commands.md").read_text()
    for command in cli.COMMANDS:
        assert f"\n    {command.name} " in done.stdout.replace("\n                 ", " ")
        assert f"burnlike {command.name}" in guide, "docs/training/commands.md lists the commands"
    assert done.stdout.endswith(
        "['burnlike._lazy', 'burnlike._memory', 'burnlike.cli', 'burnlike.cli.main', 'burnlike.errors']\n"
    )


def test_every_command_has_a_module_and_its_own_help():
    for command in cli.COMMANDS:
        done = burnlike(command.name, "--help")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"usage: burnlike {command.name}")
        assert "--debug" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--nonsense"], ["check"]])
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
    [
        ["schema", "--list"],
        ["schema", "--help"],
        pytest.param(["diff", "a.safetensors", "b.safetensors"], marks=pytest.mark.slow),  # both processes import torch
        ["check", "wrong.yaml"],
    ],
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


@pytest.fixture
def scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Path]:
    found = {}
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        found[shell] = tmp_path / shell
        found[shell].write_text(capsys.readouterr().out)
    return found


def offered(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    line = " ".join(f"'{it}'" for it in ("burnlike", *words))
    program = (
        f'source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _burnlike; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    return subprocess.run(["bash", "-c", program], check=True, capture_output=True, text=True).stdout.split()


def test_bash_offers_commands_options_and_configs(scripts: dict[str, Path]) -> None:
    assert {it.name for it in COMMANDS} <= {*offered(scripts["bash"], "")}
    assert offered(scripts["bash"], "ch") == ["check"]
    assert offered(scripts["bash"], "train", "--sw") == ["--sweep"]
    assert offered(scripts["bash"], "check", "char_gpt_t") == ["char_gpt_tiny"]
    assert offered(scripts["bash"], "completion", "f") == ["fish"]
    assert offered(scripts["bash"], "nothing", "a") == []


def test_fish_and_zsh_name_every_command_and_option(scripts: dict[str, Path]) -> None:
    fish, zsh = scripts["fish"].read_text(), scripts["zsh"].read_text()
    for command in COMMANDS:
        assert f"-a {command.name} -d " in fish
        assert f" {command.name}) words=" in zsh
    assert "'__fish_seen_subcommand_from train' -l sweep -r -d " in fish
    assert "bashcompinit" in zsh


@pytest.mark.parametrize("shell", [it for it in ("bash", "zsh", "fish") if shutil.which(it)])
def test_shells_can_read_them(shell: str, scripts: dict[str, Path]) -> None:
    subprocess.run([shell, "-n", scripts[shell]], check=True)


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "cmd"])
    assert "invalid choice: 'cmd'" in capsys.readouterr().err


OPS = {"rms_norm", "rms_norm_backward", "adamw_step_", "sgd_step_", "lion_step_", "gradient_squares_"}


@pytest.mark.slow  # compiles for seconds
def test_the_native_path_runs_in_a_model_eager_and_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["problems"] == []
    assert report["cpu"]["isa"] in report["cpu"]["isas"]
    for mode in ("cpu eager", "cpu compiled"):
        assert report["native_calls"][mode].keys() >= OPS
        assert all(report["native_calls"][mode][op] >= 1 for op in OPS)
    assert report["packages"]["torch"]


def test_the_text_names_versions_and_what_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "CPU ops" in text
    assert "in training steps, cpu compiled:" in text
    assert "PROBLEM" not in text


def test_a_kernel_that_does_not_run_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_calls_of_training_steps", lambda *_: {"rms_norm": 3})
    report = doctor.examine()
    (problem,) = (it for it in report["problems"] if it.startswith("cpu, eager: no native call of "))
    missing = problem.removeprefix("cpu, eager: no native call of ").removesuffix(" in training steps").split(", ")
    assert {"adamw_step_", "gradient_squares_", "lion_step_", "rms_norm_backward", "sgd_step_"} <= set(missing)
    assert "rms_norm" not in missing


@pytest.mark.slow  # a process of its own, whose imports take seconds
def test_without_the_library_doctor_says_so_and_fails(tmp_path: Path) -> None:
    environment = {**os.environ, "BURNLIKE_LIBRARY_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "burnlike", "doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "PROBLEM     the native CPU library is not in use: it was not built" in done.stdout
    assert done.stderr.count("RuntimeWarning") == 1


def test_a_gpu_without_kernels_is_a_problem_with_the_command_that_builds_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", ["Card A", "Card B"].__getitem__)
    monkeypatch.setattr(torch.cuda, "get_device_capability", [(9, 0), (7, 5)].__getitem__)
    monkeypatch.setattr(doctor, "_calls_of_training_steps", lambda *_: {})
    report = doctor.examine()
    assert report["cuda"]["capabilities"] == ["9.0", "7.5"]
    if report["cuda"]["native"]:
        pytest.skip("this checkout has CUDA kernels, which the next test is about")
    (problem,) = (it for it in report["problems"] if "compute capability" in it)
    assert "of compute capability 7.5, 9.0: " in problem
    assert report["cuda"]["why_not"] in problem
    assert "TORCH_CUDA_ARCH_LIST='7.5 9.0' pip install --no-build-isolation ." in problem
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "devices: Card A (9.0), Card B (7.5)" in text
    assert f"PROBLEM     {problem}" in text


def test_kernels_that_were_built_for_other_gpus_are_a_problem(tmp_path: Path) -> None:
    library = tmp_path / "burnlike" / "_C_cuda.abi3.so"
    assert doctor.cuda_problem([(9, 0), (8, 6)], "80 90 90+PTX", "", library) is None
    assert doctor.cuda_problem([], "", "it was not built", library) is None
    problem = doctor.cuda_problem([(9, 0), (7, 5)], "80 90 90+PTX", "", library) or ""
    assert "compute capability 7.5: they were built for 80 90 90+PTX" in problem
    assert "in a checkout of the sources, as wheels have no CUDA kernels" in problem
    (tmp_path / "csrc" / "cuda").mkdir(parents=True)
    assert "To build them, in this checkout: TORCH_CUDA_ARCH_LIST='7.5' " in (
        doctor.cuda_problem([(7, 5)], "80", "", library) or ""
    )


def test_copies_are_configs_that_check_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(init, tmp_path / "new" / "folder") == 0
    copies = sorted((tmp_path / "new" / "folder").iterdir())
    schemas = {path.name: json.loads(path.read_text()) for path in copies if path.suffix == ".json"}
    assert schemas == {
        "train.schema.json": json_schema(TrainConfig),
        "model.schema.json": json_schema(ModuleConfig),
    }
    copies = [path for path in copies if path.suffix == ".yaml"]
    assert [path.name for path in copies] == [path.name for path in shipped_configs().values()]
    assert [path.read_text() for path in copies] == [path.read_text() for path in shipped_configs().values()]
    assert all(str(path) in capsys.readouterr().out for path in copies[:1])
    assert run(check, *copies) == 0


def test_it_ends_with_what_to_run_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(init, tmp_path)
    *_, line = capsys.readouterr().out.splitlines()
    *_, command, path = line.split()
    assert (command, "training:" in Path(path).read_text()) == ("train", True)


def test_every_config_names_the_schema_beside_it_and_is_valid(tmp_path: Path) -> None:
    assert run(init, tmp_path) == 0
    schemas = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    for name in shipped_configs():
        path = tmp_path / f"{name}.yaml"
        found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", path.read_text().splitlines()[0])
        assert found, f"{path.name} lacks the line by which editors find the schema"
        schema = schemas[found[1]]
        value = parse_plain(path.read_text(), path.name)
        assert is_valid(value, schema, schema)
        assert not is_valid(value | {"modle": 1}, schema, schema)


def test_the_schema_has_classes_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "classes_of_mine.py").write_text(
        "import burnlike as bl\n\nclass InitMineConfig(bl.ModuleConfig, tag='InitMine'):\n    width: int\n"
    )
    assert run(init, "folder", "--import", "classes_of_mine") == 0
    for name in ("train.schema.json", "model.schema.json"):
        assert "InitMineConfig" in json.loads((tmp_path / "folder" / name).read_text())["definitions"]


def test_nothing_is_overwritten_and_nothing_half_done(tmp_path: Path) -> None:
    last = list(shipped_configs().values())[-1].name
    (tmp_path / last).write_text("mine")
    with pytest.raises(ArgumentError, match=rf"{last}: is there already"):
        run(init, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [last]
    assert (tmp_path / last).read_text() == "mine"


MODELS = """
import burnlike as bl


class RoomConfig(bl.Config):
    width: int
    inner: bl.ModuleConfig | None = None


class MineConfig(bl.ModuleConfig, tag="Mine"):
    width: int = 3

    def init(self, device=None):
        import torch

        return torch.nn.Linear(self.width, self.width, device=device)


class ForgottenConfig(bl.config.ModuleConfig):
    width: int = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models_of_mine.py").write_text(MODELS)
    return tmp_path


def python(*arguments: str) -> str:
    """The output of a program of the user's."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done.stdout + done.stderr


def test_the_base_classes_are_at_the_top() -> None:
    assert bl.ModuleConfig is bl.config.ModuleConfig is roles.ModuleConfig
    assert issubclass(bl.ModuleConfig, bl.Config)


def test_a_program_imports_its_classes_and_loads(folder: Path) -> None:
    (folder / "room.yaml").write_text("width: 4\ninner: {type: Mine, width: '${width}'}")
    program = "import models_of_mine as own; print(own.RoomConfig.load('room.yaml'))"
    assert python("-c", program) == "RoomConfig(width=4, inner=MineConfig(width=4))\n"


def test_check_with_import(folder: Path) -> None:
    (folder / "mine.yaml").write_text("type: Mine\nwidth: 5")
    (folder / "room.yaml").write_text("width: 4\ninner: {type: Mine, widht: 5}")
    (folder / "forgotten.yaml").write_text("type: Forgotten")
    command = ("-m", "burnlike", "check", "--import", "models_of_mine")
    assert python(*command, "mine.yaml") == "mine.yaml: ok (Mine)\n"
    assert python(*command, "room.yaml", "--root", "RoomConfig") == (
        "room.yaml:2:21: inner.widht: unknown key 'widht'; did you mean 'width'?\n1 mistake in 1 file of 1\n"
    )
    assert python(*command, "forgotten.yaml") == (
        "forgotten.yaml:1:7: type: ForgottenConfig has no tag; write `class ForgottenConfig(ModuleConfig, "
        'tag="Forgotten")`\n1 mistake in 1 file of 1\n'
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("type: CosineAnnealing\ninitial_lr: 0.1", "ok (CosineAnnealing)"),
        ("type: Sgd\nmomentun: 3", "f.yaml:2:1: momentun: unknown key 'momentun'; did you mean 'momentum'?"),
        ("type: Linear\nd_input: 2\nd_output: 3", "ok (Linear, initializer KaimingUniform)"),
        ("type: Linaer", "f.yaml:1:7: type: unknown type 'Linaer'; did you mean 'Linear'?"),
        ("type: 3", "missing key 'data'"),
    ],
)
def test_a_file_of_any_type_is_checked_as_what_it_names(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.yaml").write_text(text)
    assert run(check, "f.yaml") == (0 if "ok" in words else 2)
    assert words in capsys.readouterr().out


def test_nothing_in_a_file_runs_or_imports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "models_of_mine.py").write_text("raise SystemExit('imported')")
    for text in (
        "type: models_of_mine.MineConfig",
        "import: models_of_mine\ntype: Linear\nd_input: 2\nd_output: 3",
        "defaults: models_of_mine.py",
        "type: ${models_of_mine:MineConfig}",
        "!!python/object/apply:models_of_mine.MineConfig {}",
    ):
        (folder / "f.yaml").write_text(text)
        assert run(check, "f.yaml") == 2
    assert "models_of_mine" not in sys.modules


def test_a_program_ends_without_a_last_search_for_garbage() -> None:
    """Which takes half a second where torch is imported; a call with arguments leaves its process alone."""
    code = (
        "import atexit, gc, sys\nfrom burnlike.cli.main import main\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"  # the last one, as the first registered
        "sys.argv = ['burnlike', 'check', '--fast', 'configs/digits.yaml']\nmain(*{arguments})\n"
    )
    for arguments, is_frozen in (("()", True), ("(sys.argv[1:],)", False)):
        program = code.replace("{arguments}", arguments)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
        assert done.stdout.splitlines()[-1] == str(is_frozen)
