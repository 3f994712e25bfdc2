"""`burnlike completion SHELL`: a script by which bash, zsh or fish complete commands, options and shipped configs."""

import argparse
import shlex
from collections.abc import Iterator

from burnlike.config.shipped import config_file, shipped_configs

from ..options import say

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell",
        choices=SHELLS,
        help="bash, zsh: put `source <(burnlike completion SHELL)` into ~/.bashrc or ~/.zshrc;"
        " fish: write the output to ~/.config/fish/completions/burnlike.fish",
    )


def run(args: argparse.Namespace) -> int:
    from ..main import COMMANDS, parsers

    _, commands = parsers([command.name for command in COMMANDS])
    helps = {command.name: command.help for command in COMMANDS}
    say("\n".join(_fish(commands, helps) if args.shell == "fish" else _bash(commands, is_zsh=args.shell == "zsh")))
    return 0


def _bash(commands: dict[str, argparse.ArgumentParser], *, is_zsh: bool) -> Iterator[str]:
    if is_zsh:  # which has no `complete`: bashcompinit gives it the one of bash
        yield "autoload -U +X compinit && compinit"
        yield "autoload -U +X bashcompinit && bashcompinit"
    yield "_burnlike() {"
    yield f"  local words={shlex.quote(' '.join(['--version', *commands]))}"
    yield '  if [ "$COMP_CWORD" -gt 1 ]; then'
    yield '    case "${COMP_WORDS[1]}" in'
    for name, parser in commands.items():
        words = [option for action in parser._actions for option in action.option_strings] + _values(parser)
        yield f"      {name}) words={shlex.quote(' '.join(words))} ;;"
    yield "      *) words= ;;"
    yield "    esac"
    yield "  fi"
    yield '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))'
    yield "}"
    # `-o default`: where none of the words fits, the shell completes names of files.
    yield "complete -o default -F _burnlike burnlike"


def _fish(commands: dict[str, argparse.ArgumentParser], helps: dict[str, str]) -> Iterator[str]:
    for name, parser in commands.items():
        about = _quoted(helps[name])
        yield f"complete -c burnlike -n __fish_use_subcommand -a {name} -d {about}"
        here = f"complete -c burnlike -n '__fish_seen_subcommand_from {name}'"
        for action in parser._actions:
            long = [string.removeprefix("--") for string in action.option_strings if string.startswith("--")]
            if long:
                takes = " -r" if action.nargs != 0 else ""
                yield f"{here} -l {long[0]}{takes} -d {_quoted(action.help or '')}"
        if values := _values(parser):
            yield f"{here} -a {_quoted(' '.join(values))}"


def _values(parser: argparse.ArgumentParser) -> list[str]:
    """The values of the command's positional arguments, beside files."""
    choices: list[str] = []
    for action in parser._actions:
        if not action.option_strings:
            choices += [*map(str, action.choices or ())] + ([*shipped_configs()] if action.type is config_file else [])
    return choices


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
