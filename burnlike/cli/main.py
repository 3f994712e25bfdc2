"""The command `burnlike`: finds the subcommand, runs it, and turns errors into one message and an exit status."""

import argparse
import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from burnlike import __version__
from burnlike._memory import process_of_a_command
from burnlike.errors import ArgumentError, BurnlikeError, ConfigError, nearest

OK, FAILED, INTERRUPTED, BROKEN_PIPE = 0, 2, 130, 141
"""Exit statuses; 130 and 141 are what shells give for SIGINT and SIGPIPE."""


class Command(NamedTuple):
    """A subcommand. Its module has `add_arguments(parser)`, and `run(args)`, which returns the exit status."""

    name: str
    module: str
    help: str


COMMANDS = (
    Command("train", ".train", "train a model from a YAML config"),
    Command("launch", ".launch", "train with several processes, on one machine or on each of several"),
    Command("evaluate", ".evaluate", "measure the model of a run: loss and metrics on a part of the data"),
    Command("predict", ".predict", "say what the model of a run makes of new inputs"),
    Command("generate", ".generate", "let the language model of a run write text"),
    Command("export", ".export", "write the model of a run for other programs: ONNX, torch.export, Hugging Face, Burn"),
    Command("merge", ".merge", "add the adapters of a run, or of peft, to the weights of their model"),
    Command("profile", ".profile", "measure some steps of a training: time by operation and phase, and memory"),
    Command("verify-resume", ".verify_resume", "prove that a run which is resumed ends in the same bits"),
    Command("runs", ".runs", "list the runs of a directory, with their states and metrics"),
    Command("report", ".report", "write the curves, values and configs of runs as one HTML page"),
    Command("tokenizer", ".tokenizer", "learn byte-pair tokens from text, for a language model"),
    Command("init", ".init", "write a job for your data, or copy the shipped configs, to start from"),
    Command("data", ".data", "say what a training will read: numbers, lengths, classes, and the first examples"),
    Command("check", ".check", "check YAML configs: values, files and a step without data"),
    Command("show", ".show", "show a model of a YAML config as a tree, and draw it"),
    Command("inspect", ".inspect", "show what a record's file holds"),
    Command("convert", ".convert", "write a record in another format, precision or under other names"),
    Command("diff", ".diff", "compare two records: ids, shapes, types and values"),
    Command("forecast", ".forecast", "say how much disk and memory a record or model will take"),
    Command("doctor", ".doctor", "show versions, devices and what runs natively"),
    Command("schema", ".schema", "print the JSON Schema of a config, for editors"),
    Command("completion", ".completion", "print what a shell completes command lines by"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line: that of the process, or the arguments after the program's name.

    Gives 0 for success, 2 for bad input or usage, 130 when interrupted, else what the command gives, such as 1 for
    records that differ.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:  # then the process ends, and a last search of torch's objects for garbage takes half a second
        process_of_a_command()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # a replaced stream may have another type
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
    # torch says so on every start where NumPy, which burnlike does not need, is not installed.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy", category=UserWarning)
    debug = "--debug" in arguments
    try:
        # Only the module of the command that the line names is imported.
        named = next((word for word in arguments if not word.startswith("-")), None)
        if named is not None and named not in {command.name for command in COMMANDS}:
            near = nearest(named, [command.name for command in COMMANDS])
            raise ArgumentError(f"there is no command '{named}'{near}; `burnlike --help` lists all")
        parser, options = parsers([named])
        # Not `parse_args`, whose message about an unknown option names none that may be meant.
        args, unknown = parser.parse_known_args(arguments)
        if unknown:
            raise ArgumentError(_unknown(named or "", options, unknown))
        debug = getattr(args, "debug", False)  # not set where no option of this name stands
        with _limits(args):
            status = args.run(args)
        print(end="", flush=True)  # as print does, it goes over a stream that was closed before the start
        return status
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        _say_error("burnlike: interrupted")
        return INTERRUPTED
    except SystemExit:  # of argparse, after it has printed help or what is wrong with the usage
        if (status := _status_of_output()) is not None:
            return status
        raise
    except (BurnlikeError, OSError) as error:
        if debug:
            import traceback

            _say_error(traceback.format_exc().rstrip())
        status = _status_of_output(error)
        if status is None:
            _say_error(message_of(error))
        return FAILED if status is None else status


def _unknown(command: str, options: dict[str, argparse.ArgumentParser], words: Sequence[str]) -> str:
    """The message about words of a command line that no option takes, with what may be meant."""
    word, _, value = words[0].partition("=")
    flags = [string for action in options[command]._actions for string in action.option_strings]
    remedy = nearest(word, flags)
    if "--set" in flags and word.startswith("--") and not value:
        value = words[1] if len(words) > 1 and not words[1].startswith("-") else "VALUE"
    if "--set" in flags and word.startswith("--") and (path := _path_of(word.removeprefix("--").replace("-", "_"))):
        remedy = f"; did you mean `--set {path}={value}`?"
        if path == "lr_scheduler.initial_lr":
            whole = f"`--set 'lr_scheduler={{type: ConstantLr, lr: {value}}}'`"
            remedy = f"{remedy[:-1]}, of a constant rate `lr_scheduler.lr`, or of a job without lr_scheduler {whole}?"
    return f"{command}: unknown argument {word}{remedy or f'; `burnlike {command} --help` lists the options'}"


def _path_of(name: str) -> str:
    """The path in the config of a training whose last key is `name`, such as training.epochs; empty for none."""
    from burnlike.config.registry import fields_of
    from burnlike.train.job.configs import TrainConfig
    from burnlike.train.learner.configs import TrainingConfig

    if name in ("lr", "learning_rate"):
        return "lr_scheduler.initial_lr"
    if name in fields_of(TrainConfig):
        return name
    return f"training.{name}" if name in fields_of(TrainingConfig) else ""


def _status_of_output(error: Exception | None = None) -> int | None:
    """The exit status, after a message, where standard output can't be written, such as on a full disk; else None.

    Args:
        error: what ended the command, which may be the same or another one.
    """
    try:
        print(end="", flush=True)
        return None
    except OSError as lost:
        _drop_output()
        if isinstance(lost, BrokenPipeError):
            return BROKEN_PIPE
        if error is not None and getattr(error, "errno", None) != lost.errno:
            _say_error(message_of(error))
        _say_error(f"burnlike: error: standard output can't be written: {lost.strerror}")
        return FAILED


def _drop_output() -> None:
    """Print nothing any more, as nobody can read it; not even the interpreter at its exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_error(text: str) -> None:
    """Print to standard error; where that is not possible either, the exit status alone has to say it."""
    from burnlike._terminal import harmless

    with contextlib.suppress(OSError):
        print(harmless(text), file=sys.stderr, flush=True)


def _limits(args: argparse.Namespace) -> contextlib.AbstractContextManager[object]:
    """The limits for opening a file: `--limits` times the defaults."""
    factor = getattr(args, "limits", None)
    if factor is None:
        return contextlib.nullcontext()
    from burnlike.record.bytes.budget import ReadLimits

    return ReadLimits().times(factor)


def message_of(error: Exception) -> str:
    if isinstance(error, ConfigError) and any(problem.line for problem in error.problems):
        count = len(error.problems)
        return f"{error}\nburnlike: error: {count} mistake{'s' * (count != 1)} in the config"
    if isinstance(error, OSError) and not isinstance(error, BurnlikeError) and error.strerror:
        place = f"{os.fspath(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return f"burnlike: error: {place}{error.strerror}"
    return f"burnlike: error: {error}"


def parsers(whole: Sequence[str | None]) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the program, and those of its commands by name; the modules of `whole` are imported for theirs."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
    )
    # Abbreviations are refused: one that works today would become ambiguous with the next option.
    parser = argparse.ArgumentParser(
        prog="burnlike",
        description="Train PyTorch models from YAML configs; show, convert and compare records, the files that models"
        " are saved in. See `burnlike COMMAND --help`.",
        parents=[shared],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"burnlike {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    options = {}
    for command in COMMANDS:
        about = f"{command.help.capitalize()}."
        below = options[command.name] = commands.add_parser(
            command.name, help=command.help, description=about, parents=[shared], allow_abbrev=False
        )
        if command.name in whole:
            module = importlib.import_module(command.module, "burnlike.cli.commands")
            module.add_arguments(below)
            below.set_defaults(run=module.run)
    return parser, options
