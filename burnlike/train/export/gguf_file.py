"""Models in Llama's layout as a GGUF file, which llama.cpp reads: weights, sizes and tokenizer.

llama.cpp knows two kinds of tokenizers: byte-pair tokens over bytes, with one of the patterns that it has by name; and
those of SentencePiece, which joins the two pieces whose token has the best score.
"""

import json
import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ... import __version__
from ..._outputs import Output
from ...data.chat.codec import ChatCodec
from ...data.codec import BYTES, SPECIAL_TOKENS, TextCodec
from ...errors import ConfigError
from ...models.by_path.directory import CONFIG_NAME, read_description
from ...models.decoder_lm.configs import DecoderLmConfig, GatedPart, RotaryPositions
from ...models.generation import stop_tokens
from ...models.pretrained import describe
from ...nn.activation.configs import SiLUConfig
from ...record import open_record
from .hugging_face import fill_directory
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
    if content is None:  # bytes as tokens: byte-pair tokens without a merge
        letters, types = dict(enumerate(_as_letters())), dict.fromkeys(range(BYTES), _Type.NORMAL)
        vocabulary = _Vocabulary(letters, types, 255, "gpt-2")
    else:
        vocabulary = _of_content(content)
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
    # Both are said: where the file is silent llama.cpp adds what is usual for the kind of tokenizer.
    writer.add_add_bos_token(template is not None and bool(template.begin()))
    writer.add_add_eos_token(False)


def _as_letters() -> list[str]:
    """The letter that each byte is in byte-pair tokens (Radford et al. 2019): itself, or one behind the 255th."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in shown else next(others)) for byte in range(BYTES)]


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


BLOCK = 256
_PART, _MOST, _MOST_SCALE = 32, 15, 63
_STRETCHES = [1 + 0.02 * step for step in range(-5, 6)]
"""Of the range of a part's values, to look for the scale with the least error: a shorter range cuts values off."""
_ROWS = 4096
"""Blocks that are rounded at once, which bounds the memory."""


def q4_k(weight: Tensor) -> Any:
    """The rows of a matrix in blocks of 4 bits: the format Q4_K of GGUF, which the package gguf only reads.

    256 values of a row are a block of 8 parts. In a part x = scale * q - least, with q of 0 to 15; scales and leasts of
    a part are whole numbers of 6 bits, times a float16 of the block. See `block_q4_K` of ggml for the order of the
    bytes.

    Args:
        weight: float32 `[rows, columns]`; the number of columns is a multiple of `BLOCK`.

    Returns:
        numpy's uint8 `[rows, columns / 256 * 144]`.
    """
    parts = weight.reshape(-1, BLOCK // _PART, _PART)
    return torch.cat([_rounded(it) for it in parts.split(_ROWS)]).reshape(weight.shape[0], -1).numpy()


def _rounded(x: Tensor) -> Tensor:
    scales, leasts = _fitted(x)
    block_scale = (scales.amax(1) / _MOST_SCALE).half()
    block_least = (leasts.amax(1) / _MOST_SCALE).half()
    scale_numbers, least_numbers = _numbers(scales, block_scale), _numbers(leasts, block_least)
    scales = (block_scale.float()[:, None] * scale_numbers)[..., None]
    leasts = (block_least.float()[:, None] * least_numbers)[..., None]
    values = torch.where(scales > 0, (x + leasts) / scales, 0.0).round().clamp(0, _MOST).to(torch.uint8)
    first, second = values[:, 0::2], values[:, 1::2]  # in the low and the high bits of the same bytes
    floats = torch.stack((block_scale, block_least), 1).view(torch.uint8)
    return torch.cat((floats, _packed(scale_numbers, least_numbers), (first | second << 4).flatten(1)), 1)


def _fitted(x: Tensor) -> tuple[Tensor, Tensor]:
    """The scale and the least value (as a positive number) of each part, by least squares after a search."""
    least = x.amin(2, keepdim=True).clamp(max=0)
    width = x.amax(2, keepdim=True) - least
    best = [width / _MOST, -least, torch.full_like(width, torch.inf)]
    for stretch in _STRETCHES:
        q = torch.where(width > 0, (x - least) * (_MOST / stretch) / width, 0.0).round().clamp(0, _MOST)
        # x = a q - b: the sums of a line's fit.
        mean_q, mean_x = q.mean(2, keepdim=True), x.mean(2, keepdim=True)
        spread = (q - mean_q).square().sum(2, keepdim=True)
        slope = torch.where(spread > 0, ((q - mean_q) * (x - mean_x)).sum(2, keepdim=True) / spread, 0.0)
        slope, shift = slope.clamp(min=0), slope * mean_q - mean_x
        through_zero = (q * x).sum(2, keepdim=True) / q.square().sum(2, keepdim=True).clamp(min=1)
        slope, shift = torch.where(shift < 0, through_zero.clamp(min=0), slope), shift.clamp(min=0)
        error = (slope * q - shift - x).square().sum(2, keepdim=True)
        is_better = error < best[2]
        best = [torch.where(is_better, new, old) for new, old in zip((slope, shift, error), best, strict=True)]
    return best[0].squeeze(2), best[1].squeeze(2)


def _numbers(values: Tensor, unit: Tensor) -> Tensor:
    unit = unit.float()[:, None]
    return torch.where(unit > 0, values / unit, 0.0).round().clamp(0, _MOST_SCALE).to(torch.uint8)


def _packed(scales: Tensor, leasts: Tensor) -> Tensor:
    """Two times 8 numbers of 6 bits in 12 bytes."""
    low, high = slice(0, 4), slice(4, 8)
    halves = (scales[:, high] & 15) | (leasts[:, high] & 15) << 4
    return torch.cat([it[:, low] | it[:, high] >> 4 << 6 for it in (scales, leasts)] + [halves], 1)


_ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""By the `model_type` of transformers that of llama.cpp."""
_PERMUTED = "llama"
"""The architecture whose rotated pairs are neighbours in llama.cpp; in others they are halves of a head."""
_INEXACT = {"F32": 0.0, "F16": 2**-11, "BF16": 2**-8, "Q8_0": 0.005, "Q4_K": 0.2}
"""What rounding may change, relative to the largest value of a row's 256 neighbours."""
_LOST = 1e-5
"""Values that may be lost, relative to the largest of the tensor: scales of blocks are float16, which ends at 6e-8."""


class _Written(np.ndarray):
    """An array that a file of Python writes: numpy's own `tofile` loses the reason of an error, such as a full disk."""

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        fid.write(np.ascontiguousarray(self).data.cast("B"))


class _Part(NamedTuple):
    """A tensor of the file: its name, the shape that it has, its type, and what reads its values in float32."""

    name: str
    shape: tuple[int, ...]
    kind: str
    values: Callable[[], Tensor]


def write_gguf(source: Source, out: Path | Output, dtype: str | None = None, quantize: str | None = None) -> list[str]:
    """Write a `.gguf` file, read it back by the package gguf, compare its values, and say what came of it.

    Args:
        dtype: of the matrices, None for the model's; vectors are float32, as llama.cpp has them.
        quantize: `q8_0` or `q4_k`: the matrices in blocks of 8 or 4 bits. Of `q4_k` the embedding and the head have 8,
            and rows that blocks of 256 do not fill; rows that those of 32 do not fill are float16.

    Raises:
        ConfigError: llama.cpp has no such model or tokenizer, the package is missing, or values are out of the type's
            range; there is no file then.
    """
    output = Output.of(out, "export")
    with output.files() as folder, tempfile.TemporaryDirectory(dir=folder.parent, prefix=".export-") as aside:
        fill_directory(source, Path(aside))
        architecture, config, default = _described(Path(aside))
        kind = (quantize or dtype or default).upper().replace("BFLOAT", "BF").replace("FLOAT", "F")
        parts = [*_parts(architecture, config, open_record(aside).tensors, kind)]
        path = folder / output.path.name
        tokens = _write(path, source, architecture, config, parts)
        size = path.stat().st_size
        lines = [f"gguf      {out}, {architecture} in {kind.lower()}, {size / 1e6:.1f} MB", f"tokens    {tokens}"]
        return [*lines, _checked(path, parts)]


def _described(directory: Path) -> tuple[str, DecoderLmConfig, str]:
    """The architecture, the sizes and the type of a directory's model; a ConfigError if llama.cpp has no such model."""
    values = read_description(directory)
    (name,) = values["architectures"]
    architecture = _ARCHITECTURES.get(values["model_type"])
    if architecture is None or not name.endswith("ForCausalLM"):
        raise ConfigError(f"--to gguf: expected a language model of Llama, Mistral, Qwen2 or Qwen3, got {name}")
    description = describe(directory)
    config: Any = description.config
    problem = _problem(architecture, config)
    if problem:
        raise ConfigError(f"--to gguf: {name} with {problem} is none that llama.cpp computes from the file")
    return architecture, config, str(description.dtype or torch.float32).removeprefix("torch.")


def _problem(architecture: str, config: DecoderLmConfig) -> str:
    """A part of the model that the file can't say; empty if there is none."""
    match config.feed_forward:
        case GatedPart(activation=SiLUConfig(), bias=bias):
            pass
        case _:
            return f"{CONFIG_NAME}'s activation"
    if architecture != _PERMUTED and (bias or config.attention_output_bias):
        return "biases of its output projections"
    if architecture == "qwen2" and config.head_size * config.n_heads != config.d_model:
        return f"heads of {config.head_size} values"
    scaling = config.positions.scaling if isinstance(config.positions, RotaryPositions) else None
    if scaling is not None and (scaling.by_length or scaling.magnitude != 1 or architecture != _PERMUTED):
        return type(scaling).__name__
    return ""


def _parts(architecture: str, config: DecoderLmConfig, tensors: Mapping[str, Tensor], kind: str) -> Iterator[_Part]:
    """The tensors of the file, of those that transformers has on disk."""
    import gguf

    number = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(number, config.n_layers)
    heads = {"q_proj": config.n_heads, "k_proj": config.n_heads_kv or config.n_heads}
    for theirs in tensors:
        if config.tied and theirs == "lm_head.weight":
            continue
        tensor = tensors[theirs]
        name = names.get_name(theirs, try_suffixes=(".weight", ".bias"))
        if name is None:
            raise ConfigError(f"--to gguf: llama.cpp has no place for {theirs} in its architecture {architecture}")
        n_heads = heads.get(theirs.split(".")[-2]) if architecture == _PERMUTED else None
        yield _Part(name, (*tensor.shape,), _kind(name, tensor.shape, kind), partial(_values, tensors, theirs, n_heads))
    scaling = config.positions.scaling if isinstance(config.positions, RotaryPositions) else None
    if scaling is not None:
        size = config.head_size
        frequencies = [config.theta ** (-2 * pair / size) for pair in range(size // 2)]
        scaled = scaling.scaled(frequencies, config.theta)
        factors = torch.tensor([one / other for one, other in zip(frequencies, scaled, strict=True)])
        yield _Part("rope_freqs.weight", (size // 2,), "F32", lambda: factors)


def _kind(name: str, shape: tuple[int, ...], kind: str) -> str:
    if len(shape) == 1:
        return "F32"
    if kind == "Q4_K" and (shape[-1] % BLOCK or name in ("token_embd.weight", "output.weight")):
        kind = "Q8_0"
    return "F16" if kind == "Q8_0" and shape[-1] % 32 else kind


def _values(tensors: Mapping[str, Tensor], name: str, n_heads: int | None) -> Tensor:
    """The values of a tensor; of queries and keys with the halves of each of `n_heads` heads as neighbours."""
    values = tensors[name].float()
    if n_heads is None:
        return values
    return values.unflatten(0, (n_heads, 2, -1)).transpose(1, 2).flatten(0, 2).contiguous()


def _write(path: Path, source: Source, architecture: str, config: DecoderLmConfig, parts: list[_Part]) -> str:
    """Write the file; gives a description of its tokenizer for a person."""
    import gguf

    logging.getLogger("gguf.gguf_writer").setLevel(logging.ERROR)  # it tells of each step
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_string("burnlike.producer", f"burnlike {__version__}")
    for name, value in source.about.items():
        writer.add_string(f"burnlike.{name}", value if isinstance(value, str) else json.dumps(value))
    # Where llama.cpp computes no sliding window it is exact up to its length.
    longest = min(config.max_sequence_length, config.sliding_window or config.max_sequence_length)
    writer.add_context_length(longest)
    writer.add_vocab_size(config.vocab_size)
    writer.add_embedding_length(config.d_model)
    writer.add_block_count(config.n_layers)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_head_count(config.n_heads)
    writer.add_head_count_kv(config.n_heads_kv or config.n_heads)
    for add in (writer.add_key_length, writer.add_value_length, writer.add_rope_dimension_count):
        add(config.head_size)
    writer.add_rope_freq_base(config.theta)
    writer.add_layer_norm_rms_eps(config.norm_epsilon)
    writer.add_file_type(_file_type([it.kind for it in parts]))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    tokens = add_vocabulary(writer, source, config.vocab_size)
    for part in parts:
        kind = gguf.GGMLQuantizationType[part.kind]
        *rows, columns = part.shape
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        n_bytes = int(np.prod([*rows, columns])) // block * block_bytes
        writer.add_tensor_info(part.name, part.shape, np.dtype(np.float32), n_bytes, kind)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for part in parts:
            values = part.values()
            is_q4 = part.kind == "Q4_K"
            with np.errstate(over="ignore"):  # the comparison tells of it
                kind = gguf.GGMLQuantizationType[part.kind]
                rounded = q4_k(values) if is_q4 else gguf.quantize(values.numpy(), kind)
                writer.write_tensor_data(rounded.view(_Written))
    finally:
        writer.close()
    return tokens


def _file_type(kinds: list[str]) -> int:
    import gguf

    types = {"Q4_K": "MOSTLY_Q4_K_S", "Q8_0": "MOSTLY_Q8_0", "F16": "MOSTLY_F16", "BF16": "MOSTLY_BF16"}
    return int(gguf.LlamaFileType[next((name for kind, name in types.items() if kind in kinds), "ALL_F32")])


def _checked(path: Path, parts: list[_Part]) -> str:
    """Compare the values in the file with those that went in; a ConfigError if rounding does not explain it."""
    import gguf

    largest, of_largest = 0.0, ""
    for part, tensor in zip(parts, gguf.GGUFReader(path).tensors, strict=True):
        values = part.values()
        with np.errstate(invalid="ignore"):
            written = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy()).reshape(part.shape)
        pad = -values.shape[-1] % BLOCK
        neighbours = torch.nn.functional.pad(values, (0, pad)).unflatten(-1, (-1, BLOCK)).abs().amax(-1, keepdim=True)
        difference = torch.nn.functional.pad((written - values).abs(), (0, pad)).unflatten(-1, (-1, BLOCK))
        lost = float(values.abs().max()) * _LOST if part.kind != "F32" else 0.0
        allowed = neighbours * _INEXACT[part.kind] + lost
        if not bool((difference <= allowed).all()):
            raise ConfigError(
                f"--to gguf: {part.name} has values up to {float(values.abs().max()):.3g}, which {part.kind.lower()}"
                " can't hold; take --dtype float32 or bfloat16"
            )
        relative = float((difference / neighbours.clamp(min=lost or 1e-30)).max())
        if relative >= largest:
            largest, of_largest = relative, part.name
    return (
        f"checked   by gguf: {len(parts)} tensors, largest difference {largest:.2g} of a block's values ({of_largest})"
    )
