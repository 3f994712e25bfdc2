"""The tokenizer of a run in a GGUF file: what llama.cpp needs to make the same tokens of the same text.

llama.cpp knows two kinds: byte-pair tokens over bytes, with one of the patterns that it has by name; and those of
SentencePiece, which joins the two pieces whose token has the best score.
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ...data.chat.codec import ChatCodec
from ...data.codec import BYTES, SPECIAL_TOKENS, TextCodec
from ...errors import ConfigError
from ...models.generation import stop_tokens
from .source import Source

_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = {
    (f"{_SHORT}{_WORDS}|\\p{{N}}{{1,3}}{_REST}", True): "llama-bpe",
    (f"{_SHORT}{_WORDS}|\\p{{N}}{{1,3}}{_REST}", False): "smaug-bpe",
    (f"{_SHORT}{_WORDS}|\\p{{N}}{_REST}", False): "qwen2",
    (_TEKKEN, True): "tekken",
    ("ByteLevel", False): "gpt-2",
    ("Digits ByteLevel", False): "smollm",
}
"""llama.cpp's names of how text is cut into words, by the pattern and whether words are looked up before merges."""
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_MARKS = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")
_END_ROLES = ("eos", "eot", "eom")


class _Type(IntEnum):
    NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


class _Vocabulary(NamedTuple):
    """A tokenizer: its tokens by number, which of them stand for themselves, and how text becomes them.

    Attributes:
        merges: of byte-pair tokens, as llama.cpp writes them; empty for SentencePiece, whose tokens have `scores`.
        never: a token that no text has, to be named where llama.cpp needs one of a role that the tokenizer lacks.
        pre: the name of the pattern; empty for SentencePiece.
    """

    tokens: Mapping[int, str]
    types: Mapping[int, _Type]
    never: int
    pre: str = ""
    merges: Sequence[str] = ()
    scores: Mapping[int, float] | None = None
    has_space_prefix: bool = False


def add_vocabulary(writer: Any, source: Source, size: int) -> str:
    """Add the tokenizer of the source's run; gives a description of it for a person.

    Args:
        writer: of the package gguf.
        size: how many tokens the model has.

    Raises:
        ConfigError: llama.cpp has no tokenizer that makes the same tokens.
    """
    data: Any = None if source.run is None else source.run.config.data
    codec: Any = data.codec(source.run.facts, source.run.directory) if hasattr(data, "codec") and source.run else None
    template = codec.template if isinstance(codec, ChatCodec) else None
    if template is not None:
        content = json.loads(template.tokenizer.backend_tokenizer.to_str())
    elif isinstance(codec, TextCodec):
        content = codec.tokenizer_content()
    else:
        writer.add_tokenizer_model("none")
        return "without a tokenizer: the model is of no run of texts; llama.cpp takes numbers of tokens"
    vocabulary = _of_bytes() if content is None else _of_content(content)
    if len(vocabulary.tokens) > size:
        raise ConfigError(f"--to gguf: the tokenizer has {len(vocabulary.tokens)} tokens, the model {size}")
    tokens = [vocabulary.tokens.get(number, f"[PAD{number}]") for number in range(size)]
    writer.add_token_list(tokens)
    writer.add_token_types([vocabulary.types.get(number, _Type.UNUSED) for number in range(size)])
    if vocabulary.scores is None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(vocabulary.pre)
        # llama.cpp asks for merges; this one is of bytes that are in no text.
        writer.add_token_merges(vocabulary.merges or [f"{_as_letters()[255]} {_as_letters()[255]}"])
    else:
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([vocabulary.scores.get(number, 0.0) for number in range(size)])
        writer.add_add_space_prefix(vocabulary.has_space_prefix)
        writer.add_remove_extra_whitespaces(False)
    ends = sorted(stop_tokens(source.model, codec), key=lambda it: it not in codec.stop_tokens)
    _add_roles(writer, vocabulary, template, ends)
    kind = "byte-pair tokens" if vocabulary.scores is None else "SentencePiece"
    shown = "bytes" if content is None else f"{kind} ({vocabulary.pre or 'llama'})"
    return f"{len(vocabulary.tokens)}, {shown}{'' if template is None else ', with the chat template'}"


def _add_roles(writer: Any, vocabulary: _Vocabulary, template: Any, ends: Sequence[int]) -> None:
    """Name the tokens that begin and end texts, else llama.cpp takes any of its own choice; and the chat template."""
    numbers = {text: number for number, text in vocabulary.tokens.items()}
    begin, end = (numbers.get(SPECIAL_TOKENS[role]) for role in ("bos", "eos"))
    if template is not None:
        begin, end = template.tokenizer.bos_token_id, template.eos_token
        writer.add_chat_template(_MARKS.sub("", template.text))
    ordered = [*([] if end is None else [end]), *(it for it in ends if it != end)] or [vocabulary.never]
    if len(ordered) > len(_END_ROLES):
        shown = ", ".join(vocabulary.tokens.get(it, str(it)) for it in ordered)
        raise ConfigError(f"--to gguf: {len(ordered)} tokens end an answer ({shown}); the file names {len(_END_ROLES)}")
    writer.add_bos_token_id(vocabulary.never if begin is None else begin)
    for role, token in zip(_END_ROLES, ordered, strict=False):
        getattr(writer, f"add_{role}_token_id")(token)
    writer.add_add_bos_token(template is not None and bool(template.begin()))
    writer.add_add_eos_token(False)


def _as_letters() -> list[str]:
    """The letter that each byte is in byte-pair tokens (Radford et al. 2019): itself, or one behind the 255th."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in shown else next(others)) for byte in range(BYTES)]


def _of_bytes() -> _Vocabulary:
    """Bytes as tokens: byte-pair tokens without a merge."""
    return _Vocabulary(dict(enumerate(_as_letters())), dict.fromkeys(range(BYTES), _Type.NORMAL), 255, "gpt-2")


def _of_content(content: Mapping[str, Any]) -> _Vocabulary:
    """The tokenizer of a `tokenizer.json`."""
    model, added = content["model"], content["added_tokens"]
    problem = next(
        (name for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix") if model.get(name)), ""
    )
    stripped = next((it["content"] for it in added if it["lstrip"] or it["rstrip"] or it["single_word"]), None)
    if model["type"] != "BPE" or problem or stripped:
        problem = f"the option {problem} of its tokens" if problem else f"tokens by {model['type']}"
        raise _unknown(f"spaces around {stripped} that belong to it" if stripped else problem)
    tokens = {number: text for text, number in model["vocab"].items()}
    types = dict.fromkeys(tokens, _Type.NORMAL)
    for token in added:
        tokens[token["id"]] = token["content"]
        types[token["id"]] = _Type.CONTROL if token["special"] else _Type.USER_DEFINED
    merges = [tuple(it.split(" ")) if isinstance(it, str) else tuple(it) for it in model["merges"]]
    read = _of_pieces if model.get("byte_fallback") else _of_words
    return read(content, tokens, types, merges)


def _of_words(content: Any, tokens: Any, types: Any, merges: Sequence[tuple[str, ...]]) -> _Vocabulary:
    """Byte-pair tokens over bytes."""
    normalizer = content["normalizer"]
    if normalizer not in (None, {"type": "NFC"}):
        raise _unknown(f"the normalizer {normalizer['type']}")
    steps: Any = content["pre_tokenizer"] or {"type": "no pattern"}
    pattern = " ".join(filter(None, map(_step, steps.get("pretokenizers", [steps]))))
    pre = _PATTERNS.get((pattern, bool(content["model"].get("ignore_merges"))))
    if pre is None:
        raise _unknown(f"the pattern {pattern}")
    numbers = {text: number for number, text in tokens.items()}
    if missing := [byte for byte, letter in enumerate(_as_letters()) if letter not in numbers]:
        raise _unknown(f"no token for {len(missing)} of the {BYTES} bytes")
    return _Vocabulary(tokens, types, numbers[_as_letters()[255]], pre, [" ".join(merge) for merge in merges])


def _step(step: Mapping[str, Any]) -> str:
    """A step of cutting text into words, as the table of patterns has it; empty for one that changes nothing."""
    match step:
        case {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}:
            return pattern
        case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": bool(cuts)}:
            return "ByteLevel" if cuts else ""
        case {"type": "Digits", "individual_digits": True}:
            return "Digits"
        case _:
            return json.dumps(step)


def _of_pieces(content: Any, tokens: Any, types: Any, merges: Sequence[tuple[str, ...]]) -> _Vocabulary:
    """SentencePiece's tokens, whose merges are in the order of scores."""
    replaces = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    prepends = {"type": "Prepend", "prepend": _SPACE}
    spaces = {"type": "Metaspace", "replacement": _SPACE, "split": False}
    forms = [  # of the normalizer and of the cutting into words, and whether a space begins a text
        ({"type": "Sequence", "normalizers": [prepends, replaces]}, None, True),
        (replaces, None, False),
        (None, {**spaces, "prepend_scheme": "always"}, True),
        (None, {**spaces, "prepend_scheme": "never"}, False),
    ]
    got = content["normalizer"], content["pre_tokenizer"]
    form = next((it for it in forms if it[:2] == got), None)
    if form is None:
        raise _unknown(f"spaces by {json.dumps(got, ensure_ascii=False)}")
    numbers = {text: number for number, text in tokens.items()}
    ranks: dict[str, int] = {}
    last = ""
    for rank, pair in enumerate(merges):
        whole = "".join(pair)
        if whole in ranks and whole != last:
            raise _unknown(f"merges to {whole} at several places of their order")
        ranks.setdefault(whole, rank)
        last = whole
    pairs = {*merges}
    for number, text in tokens.items():
        if types[number] is not _Type.NORMAL or _BYTE.fullmatch(text):
            continue
        for at in range(1, len(text)):
            if text[:at] in numbers and text[at:] in numbers and (text[:at], text[at:]) not in pairs:
                raise _unknown(f"no merge of {text[:at]} and {text[at:]} to its token {text}")
    of_bytes = {number: _Type.BYTE for number, text in tokens.items() if _BYTE.fullmatch(text)}
    if len(of_bytes) < BYTES:
        raise _unknown(f"tokens for {len(of_bytes)} of the {BYTES} bytes")
    unknown = numbers.get(content["model"].get("unk_token"))
    types = {**types, **of_bytes, **({} if unknown is None else {unknown: _Type.UNKNOWN})}
    scores = {numbers[whole]: -1.0 - rank for whole, rank in ranks.items()}
    return _Vocabulary(tokens, types, numbers["<0xFF>"], scores=scores, has_space_prefix=form[2])


def _unknown(problem: str) -> ConfigError:
    return ConfigError(f"--to gguf: llama.cpp has no tokenizer like this run's, with {problem}; take --to hf")
