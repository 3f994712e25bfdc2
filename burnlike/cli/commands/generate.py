"""`burnlike generate RUN`: what the language model of a run writes: a text as it comes, or several as rows."""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burnlike._outputs import Output
from burnlike.errors import ArgumentError

from ..options import add_force_option, add_repeated, add_run_options, opened, place_of, show
from .predict import FILES, write_predictions

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
_BEAMS: dict[str, dict[str, Any]] = {
    "num_beams": {"type": int, "metavar": "N", "help": "search for the likeliest texts with so many at a time"},
    "length_penalty": {"type": float, "metavar": "X", "help": "of a search; above 0 for longer texts (default: 1)"},
    "early_stopping": {
        "choices": ["true", "false", "never"],
        "help": "of a search: end with the first N texts, when none is likely to be better (default), or can be",
    },
}
"""Options of a search, as `Beams` has them."""
_MAX_TOKENS = 256


def _bias(text: str) -> tuple[int, float]:
    token, _, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected TOKEN=X, such as 50=-inf, got '{text}'") from error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    text = "what the text begins with, with --chat the first message; - reads standard input to its end"
    parser.add_argument("--prompt", metavar="TEXT", help=text)
    text = "a file of prompts, .txt by lines or .jsonl with `prompt` or `messages`, or -; the texts are JSON lines"
    parser.add_argument("--prompts", metavar="FILE", help=text)
    text = "texts of each prompt (default: 1), as JSON lines"
    parser.add_argument("--samples", type=int, metavar="N", help=text)
    text = "where to write texts of several: FILE.jsonl or FILE.csv (default: standard output)"
    parser.add_argument("--out", metavar="PATH", help=text)
    add_force_option(parser, "--out FILE")
    parser.add_argument("--batch-size", type=int, default=8, metavar="N", help="prompts of a batch (default: 8)")
    text = "talk by the chat template of the run's data; without --prompt each line of standard input is a message"
    parser.add_argument("--chat", action="store_true", help=text)
    parser.add_argument("--system", metavar="TEXT", help="with --chat: the system prompt")
    text = f"tokens of a text (default: {_MAX_TOKENS}; with --draft as many as fit)"
    parser.add_argument("--max-tokens", type=int, metavar="N", help=text)
    for name, (value_type, metavar, text) in _SAMPLING.items():
        parser.add_argument(_flag(name), type=value_type, metavar=metavar, help=text)
    text = "add X to the logit of a token's number; -inf leaves it out; may be repeated"
    parser.add_argument("--logit-bias", type=_bias, action="append", metavar="TOKEN=X", help=text)
    for name, options in _BEAMS.items():
        parser.add_argument(_flag(name), **options)
    text = "a run of a smaller model of the same tokens, which drafts what this one checks: the same texts, sooner"
    parser.add_argument("--draft", metavar="RUN", help=text)
    add_repeated(parser, "--stop", "stops", "TEXT", "end before this text; may be repeated")
    parser.add_argument("--seed", type=int, metavar="N", help="of the draws (default: another each time)")


def run(args: argparse.Namespace) -> int:
    _check(args)
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    if prompt is not None and not (prompt or args.chat):
        raise ArgumentError("--prompt: expected a text of at least one character, got an empty one")
    _check_sampling(args)
    inputs = [place_of(args.place), *(it for it in (args.prompts,) if it not in (None, "-"))]
    out = None if args.out is None else Output(args.out, "generate", inputs=inputs, force=args.force)
    if out is not None:
        out.check_file()
    loaded = opened(args)
    writer = _Writer(loaded, args)
    if _is_several(args):
        from burnlike.data.chat.codec import prompt_tokens, read_prompts

        options = {"continues": not args.chat, "system": args.system}
        if args.prompts is None:
            prompts = [("--prompt", prompt_tokens(writer.codec, prompt, **options))]
        else:
            source = sys.stdin if args.prompts == "-" else Path(args.prompts)
            prompts = [*read_prompts(writer.codec, source, **options)]
        if not prompts:
            raise ArgumentError(f"--prompts {args.prompts}: expected at least one prompt, got none")
        count = write_predictions(out, writer.rows(prompts), is_csv=False)
        if out is not None:
            print(f"{count:,} texts are in {args.out}")
        return 0
    if not args.chat:
        for piece in writer.write(writer.codec.encode(prompt)):
            show(piece)
        print()
        return 0
    messages = [] if args.system is None else [{"role": "system", "content": args.system}]
    for message in _messages() if prompt is None else [prompt]:
        messages.append({"role": "user", "content": message})
        answer = ""
        for piece in writer.write(writer.codec.chat(messages)):
            answer += piece
            show(piece)
        print(flush=True)
        messages.append({"role": "assistant", "content": answer})
    return 0


def _is_several(args: argparse.Namespace) -> bool:
    return any(it is not None for it in (args.prompts, args.samples, args.num_beams))


class _Writer:
    """Writes the tokens after those of a prompt, by the options of the command."""

    def __init__(self, loaded: "LoadedRun", args: argparse.Namespace) -> None:
        import torch

        from burnlike.models.generation import shown_length, stop_tokens

        self._loaded = loaded
        self._args = args
        self.codec: Any = loaded.config.data.codec(loaded.facts, loaded.directory)
        seed = random.SystemRandom().randrange(_LARGEST_SEED // 2) if args.seed is None else args.seed
        of_task = 0.0 if args.chat else getattr(loaded.config.task, "temperature", 0.0)
        # A generator of its own, so that nothing else that draws numbers changes what `--seed` writes.
        generator = torch.Generator().manual_seed(seed)
        self._sampling: Any = {"temperature": of_task, "generator": generator, **_sampling(args)}
        self._stops = stop_tokens(loaded.model, self.codec)
        self._limits: Any = {"context_length": shown_length(loaded.model, self.codec), "stop_tokens": self._stops}
        self._draft: Any = None
        if args.draft is not None:
            from burnlike.models import DraftModel
            from burnlike.train import load_run

            run = load_run(place_of(args.draft), device=args.device)
            drafts: Any = run.config.data.codec(run.facts, run.directory)
            if drafts.vocab_size != self.codec.vocab_size:
                expected = f"expected a run of the same {self.codec.vocab_size} tokens, got one of {drafts.vocab_size}"
                raise ArgumentError(f"--draft {args.draft}: {expected}")
            self._draft = DraftModel(model=run.model)
            self._longest = [self._limits["context_length"], shown_length(run.model, self.codec)]

    def _count(self, tokens: "Tensor") -> int:
        """The tokens to add to a prompt: with a draft no more than both models take beside it."""
        wanted = self._args.max_tokens
        if self._draft is None:
            return wanted or _MAX_TOKENS
        room = min((it - len(tokens) for it in self._longest if it is not None), default=_MAX_TOKENS)
        if room < (wanted or 1):
            longest = f"{room + len(tokens)} tokens together, got a prompt of {len(tokens)}"
            raise ArgumentError(f"--draft: expected at most {longest} and --max-tokens {wanted or 1}")
        return wanted or min(room, _MAX_TOKENS)

    def write(self, tokens: "Tensor") -> Iterator[str]:
        from burnlike.data.codec import text_pieces, until
        from burnlike.models import stream

        args = self._args
        limits = {**self._limits, **self._sampling}
        added = stream(self._loaded.model, tokens, self._count(tokens), draft=self._draft, **limits)
        shown = (token for token in added if token not in self._stops)
        return until(text_pieces(shown, self.codec.decode), args.stops)

    def rows(self, prompts: Sequence[tuple[str, "Tensor"]]) -> Iterator[dict[str, Any]]:
        """A row for each text, as its batch has ended."""
        from burnlike.data.codec import until
        from burnlike.models import complete, stop_texts

        args = self._args
        options = dict(self._sampling)
        beams = _beams(args)
        if beams is not None:
            options = {**options, "temperature": args.temperature or 0.0}
        elif (args.samples or 1) > 1 and not options["temperature"]:
            raise ArgumentError("--samples: expected a --temperature above 0, or --num-beams: all texts would be equal")
        stop_when = stop_texts(self.codec.decode, args.stops) if args.stops else None
        for begin in range(0, len(prompts), args.batch_size):
            batch = prompts[begin : begin + args.batch_size]
            completions = complete(
                self._loaded.model,
                [tokens for _, tokens in batch],
                args.max_tokens or _MAX_TOKENS,
                n_samples=args.samples or 1,
                beams=beams,
                stop_when=stop_when,
                **self._limits,
                **options,
            )
            for row, (added, length) in enumerate(zip(completions.tokens, completions.lengths, strict=True)):
                name, sample = divmod(row, args.samples or 1)
                tokens = [token for token in added[:length].tolist() if token not in self._stops]
                text = "".join(until([self.codec.decode(added.new_tensor(tokens))], args.stops))
                numbers = {} if args.samples is None else {"sample": sample}
                yield {"name": batch[name][0], **numbers, "text": text, "finished": bool(completions.finished[row])}


def _check(args: argparse.Namespace) -> None:
    if args.prompt is None and args.prompts is None and (not args.chat or _is_several(args)):
        talk = "" if _is_several(args) else ", or --chat to talk line by line"
        raise ArgumentError(f"expected --prompt TEXT (or - for standard input), or --prompts FILE{talk}")
    if args.prompt is not None and args.prompts is not None:
        raise ArgumentError("expected --prompt TEXT or --prompts FILE, got both")
    for name in ("samples", "batch_size"):
        if (count := getattr(args, name)) is not None and count < 1:
            raise ArgumentError(f"{_flag(name)}: expected at least 1, got {count}")
    if args.out is not None and not (_is_several(args) and args.out.endswith(FILES)):
        raise ArgumentError(
            f"--out {args.out}: expected FILE.jsonl or FILE.csv, with --prompts, --samples or --num-beams"
        )
    if args.draft is not None and _is_several(args):
        raise ArgumentError("--draft is for one text: give --prompt or --chat without --samples and --num-beams")
    if args.system is not None and not args.chat:
        raise ArgumentError("--system is for --chat: without it a text only begins with the prompt")
    if args.max_tokens is not None and args.max_tokens < 1:
        raise ArgumentError(f"--max-tokens: expected at least 1, got {args.max_tokens}")
    if not all(args.stops):
        raise ArgumentError("--stop: expected a text of at least one character, got an empty one")
    if args.seed is not None and not 0 <= args.seed < _LARGEST_SEED:
        raise ArgumentError(f"--seed: expected 0 to {_LARGEST_SEED - 1}, got {args.seed}")


def _check_sampling(args: argparse.Namespace) -> None:
    """Refuse what a Sampler and Beams refuse, by the names of the flags, before the run is read."""
    from burnlike.models import Sampler

    try:
        Sampler(**_sampling(args))
        if (beams := _beams(args)) is not None:
            beams.check(args.samples or 1, {"temperature": args.temperature or 0.0})
    except ArgumentError as error:
        name, _, problem = str(error).partition(": ")
        raise ArgumentError(f"{_flag(name.removeprefix('n_'))}: {problem}") from error


def _sampling(args: argparse.Namespace) -> Any:
    """The options of a draw that the line has."""
    options = {name: value for name in _SAMPLING if (value := getattr(args, name)) is not None}
    return options if args.logit_bias is None else {**options, "logit_bias": dict(args.logit_bias)}


def _beams(args: argparse.Namespace) -> Any:
    """The search that the line has; None without one."""
    from burnlike.models import Beams

    options = {name: value for name in _BEAMS if (value := getattr(args, name)) is not None}
    if options and "num_beams" not in options:
        raise ArgumentError(f"{next(iter(options))}: expected --num-beams N with it")
    if options.get("early_stopping") in ("true", "false"):
        options["early_stopping"] = options["early_stopping"] == "true"
    return Beams(**options) if options else None


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
