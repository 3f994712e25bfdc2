"""Models in Llama's layout as a GGUF file, which llama.cpp reads: weights, sizes and tokenizer."""

import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ... import __version__
from ..._outputs import Output
from ...errors import ConfigError
from ...models.by_path.directory import CONFIG_NAME, read_description
from ...models.decoder_lm.configs import DecoderLmConfig, GatedPart, RotaryPositions
from ...models.pretrained import describe
from ...nn.activation.configs import SiLUConfig
from ...record import open_record
from .gguf_blocks import BLOCK, q4_k
from .gguf_vocabulary import add_vocabulary
from .hugging_face import fill_directory
from .source import Source

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
