"""`burnlike tokenizer PATH`: learns byte-pair tokens from text."""

import argparse

from burnlike._outputs import Output
from burnlike.errors import ArgumentError, DataError

from ..options import add_force_option, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Learn byte-pair tokens from a text file or a folder of them, and write tokenizer.json, which `data.tokenizer`"
        " names in a job of texts. The same text gives the same file. Beside text it has the tokens <pad>, <s>, </s>,"
        " <unk> and <mask>."
    )
    parser.add_argument("path", nargs="?", help="default: the source text of Python's standard library")
    parser.add_argument("--vocab-size", type=int, default=4096, metavar="N", help="number of tokens (default: 4096)")
    parser.add_argument("--pattern", default="**/*", help="which files of a folder (default: all)")
    parser.add_argument("--out", default="tokenizer.json", metavar="FILE", help="default: tokenizer.json")
    add_force_option(parser)


def run(args: argparse.Namespace) -> int:
    from burnlike.data.codec import SMALLEST, TextTokenizer, train_tokenizer
    from burnlike.data.configs import TextCorpusConfig
    from burnlike.data.text import read_texts

    if args.vocab_size < SMALLEST:
        raise ArgumentError(
            f"--vocab-size: expected at least {SMALLEST}, a token for each byte and 5"
            f" special ones, got {args.vocab_size}"
        )
    out = Output(args.out, "tokenizer", inputs=[] if args.path is None else [args.path], force=args.force)
    out.check_file()
    text = read_texts(TextCorpusConfig(path=args.path, pattern=args.pattern))[0].decode()
    tokenizer = train_tokenizer([text], args.vocab_size)
    try:
        out.write(tokenizer.to_str(pretty=True).encode() + b"\n")
    except OSError as error:
        raise DataError(f"{out} can't be written: {error.strerror or error}") from error
    read = TextTokenizer(out.path)
    tokens = len(read.encode(text))
    say(f"{out}: {read.vocab_size} tokens; {len(text):,} characters are {tokens:,} of them")
    return 0
