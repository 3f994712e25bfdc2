"""`burnlike generate RUN --prompt TEXT`: text that the language model of a run writes, as it comes."""

import argparse
import random
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from burnlike._terminal import harmless
from burnlike.errors import ArgumentError

from ..options import add_repeated, add_run_options, opened

if TYPE_CHECKING:
    from torch import Tensor

    from burnlike.train import LoadedRun

_LARGEST_SEED = 2**64
_SAMPLING: dict[str, tuple[type, str, str]] = {
    "temperature": (float, "T", "divides the logits; 0: the likeliest token (default: the task's, with --chat 0)"),
    "top_k": (int, "K", "draw from the K likeliest tokens only"),
    "top_p": (float, "P", "draw from the likeliest tokens that together have this probability"),
    "min_p": (float, "P", "leave out tokens below this share of the likeliest one's probability"),
    "typical_p": (float, "P", "draw from the most typical tokens that together have this probability"),
    "repetition_penalty": (float, "X", "divide the logits of tokens that the prompt or the text has by it"),
    "presence_penalty": (float, "X", "subtract it from the logits of tokens that were added"),
    "frequency_penalty": (float, "X", "subtract it as often as a token was added"),
    "no_repeat_ngram": (int, "N", "write no N tokens in a row twice"),
}
"""Options of a draw, as `SamplingOptions` has them: type, placeholder and help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    text = "what the text begins with, with --chat the first message; - reads standard input to its end"
    parser.add_argument("--prompt", metavar="TEXT", help=text)
    text = "talk by the chat template of the run's data; without --prompt each line of standard input is a message"
    parser.add_argument("--chat", action="store_true", help=text)
    parser.add_argument("--system", metavar="TEXT", help="with --chat: the system prompt")
    parser.add_argument("--max-tokens", type=int, default=256, metavar="N", help="tokens of a text (default: 256)")
    for name, (value_type, metavar, text) in _SAMPLING.items():
        parser.add_argument(_flag(name), type=value_type, metavar=metavar, help=text)
    add_repeated(parser, "--stop", "stops", "TEXT", "end before this text; may be repeated")
    parser.add_argument("--seed", type=int, metavar="N", help="of the draws (default: another each time)")


def run(args: argparse.Namespace) -> int:
    _check(args)
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    if prompt is not None and not (prompt or args.chat):
        raise ArgumentError("--prompt: expected a text of at least one character, got an empty one")
    _check_sampling(args)
    loaded = opened(args)
    writer = _Writer(loaded, args)
    if not args.chat:
        for piece in writer.write(writer.codec.encode(prompt)):
            _show(piece)
        print()
        return 0
    messages = [] if args.system is None else [{"role": "system", "content": args.system}]
    for message in _messages() if prompt is None else [prompt]:
        messages.append({"role": "user", "content": message})
        answer = ""
        for piece in writer.write(writer.codec.chat(messages)):
            answer += piece
            _show(piece)
        print(flush=True)
        messages.append({"role": "assistant", "content": answer})
    return 0


class _Writer:
    """Writes the tokens after those of a prompt, by the options of the command."""

    def __init__(self, loaded: "LoadedRun", args: argparse.Namespace) -> None:
        import torch

        from burnlike.models.generation import stop_tokens

        self._loaded = loaded
        self._args = args
        self.codec: Any = loaded.config.data.codec(loaded.facts, loaded.directory)
        seed = random.SystemRandom().randrange(_LARGEST_SEED // 2) if args.seed is None else args.seed
        of_task = 0.0 if args.chat else getattr(loaded.config.task, "temperature", 0.0)
        generator = torch.Generator().manual_seed(seed)
        self._sampling: Any = {"temperature": of_task, "generator": generator, **_sampling(args)}
        self._stops = stop_tokens(loaded.model, self.codec)

    def write(self, tokens: "Tensor") -> Iterator[str]:
        from burnlike.data.codec import text_pieces, until
        from burnlike.models import stream

        args = self._args
        added = stream(
            self._loaded.model,
            tokens,
            args.max_tokens,
            context_length=getattr(self.codec, "context_length", None),
            stop_tokens=self._stops,
            **self._sampling,
        )
        shown = (token for token in added if token not in self._stops)
        return until(text_pieces(shown, self.codec.decode), args.stops)


def _check(args: argparse.Namespace) -> None:
    if args.prompt is None and not args.chat:
        raise ArgumentError("expected --prompt TEXT (or - for standard input), or --chat to talk line by line")
    if args.system is not None and not args.chat:
        raise ArgumentError("--system is for --chat: without it a text only begins with the prompt")
    if args.max_tokens < 1:
        raise ArgumentError(f"--max-tokens: expected at least 1, got {args.max_tokens}")
    if not all(args.stops):
        raise ArgumentError("--stop: expected a text of at least one character, got an empty one")
    if args.seed is not None and not 0 <= args.seed < _LARGEST_SEED:
        raise ArgumentError(f"--seed: expected 0 to {_LARGEST_SEED - 1}, got {args.seed}")


def _check_sampling(args: argparse.Namespace) -> None:
    """Refuse what a Sampler refuses, by the names of the flags, before the run is read."""
    from burnlike.models import Sampler

    try:
        Sampler(**_sampling(args))
    except ArgumentError as error:
        name, _, problem = str(error).partition(": ")
        raise ArgumentError(f"{_flag(name)}: {problem}") from error


def _sampling(args: argparse.Namespace) -> Any:
    """The options of a draw that the line has."""
    return {name: value for name in _SAMPLING if (value := getattr(args, name)) is not None}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _messages() -> Iterator[str]:
    """The lines of standard input that are not empty; a person is asked for each."""
    asks = sys.stdin.isatty() and sys.stdout.isatty()
    while True:
        if asks:
            print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def _show(piece: str) -> None:
    print(harmless(piece) if sys.stdout.isatty() else piece, end="", flush=True)
