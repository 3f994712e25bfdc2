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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    text = "what the text begins with, with --chat the first message; - reads standard input to its end"
    parser.add_argument("--prompt", metavar="TEXT", help=text)
    text = "talk by the chat template of the run's data; without --prompt each line of standard input is a message"
    parser.add_argument("--chat", action="store_true", help=text)
    parser.add_argument("--system", metavar="TEXT", help="with --chat: the system prompt")
    parser.add_argument("--max-tokens", type=int, default=256, metavar="N", help="tokens of a text (default: 256)")
    text = "above 0: draw tokens, of logits divided by it; 0: the likeliest (default: the task's, with --chat 0)"
    parser.add_argument("--temperature", type=float, metavar="T", help=text)
    parser.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest tokens only")
    text = "draw from the likeliest tokens that together have this probability"
    parser.add_argument("--top-p", type=float, metavar="P", help=text)
    add_repeated(parser, "--stop", "stops", "TEXT", "end before this text; may be repeated")
    parser.add_argument("--seed", type=int, metavar="N", help="of the draws (default: another each time)")


def run(args: argparse.Namespace) -> int:
    _check(args)
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    if prompt is not None and not (prompt or args.chat):
        raise ArgumentError("--prompt: expected a text of at least one character, got an empty one")
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
        self._generator = torch.Generator().manual_seed(seed)
        of_task = 0.0 if args.chat else getattr(loaded.config.task, "temperature", 0.0)
        self._temperature: float = of_task if args.temperature is None else args.temperature
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
            temperature=self._temperature,
            top_k=args.top_k,
            top_p=args.top_p,
            stop_tokens=self._stops,
            generator=self._generator,
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
    if args.temperature is not None and not 0 <= args.temperature < float("inf"):
        raise ArgumentError(f"--temperature: expected 0 or more, got {args.temperature}")
    if args.top_k is not None and args.top_k < 1:
        raise ArgumentError(f"--top-k: expected at least 1, got {args.top_k}")
    if args.top_p is not None and not 0 < args.top_p <= 1:
        raise ArgumentError(f"--top-p: expected more than 0 and at most 1, got {args.top_p}")
    if not all(args.stops):
        raise ArgumentError("--stop: expected a text of at least one character, got an empty one")
    if args.seed is not None and not 0 <= args.seed < _LARGEST_SEED:
        raise ArgumentError(f"--seed: expected 0 to {_LARGEST_SEED - 1}, got {args.seed}")


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
