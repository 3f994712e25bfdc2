"""A step of training (forward with the loss, backward) of the families that people train most, fused beside itself.

The twenty are those with the most downloads among language models, encoders, speech and image models, one of each
architecture: what derives from one of them (XLM-RoBERTa, SmolLM, DeiT) has its blocks. Each is small, but wide enough
to measure: hidden size 256, 4 heads, 4 layers, 4 x 128 tokens, as its config makes it, with its dropout. Both sides
begin with the same weights; in bfloat16 the whole model is in it (`model.to(torch.bfloat16)`), or with `--autocast` the
weights stay in float32. The note has the largest difference of a gradient, relative to the largest value of that.

    python -m benchmarks.models.families [--autocast] [--evaluation] [llama ...]
"""

import argparse
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as _transformers
from torch import Tensor, nn

from burnlike.interop import fuse

from .. import _results
from .._harness import Comparison, compare

BATCH, LENGTH, VOCAB = 4, 128, 4096
IMAGE = {"image_size": 176, "patch_size": 16}  # 121 patches
BARS = {torch.float32: 1.2, torch.bfloat16: 1.4}
Made = tuple[nn.Module, dict[str, Any]]
transformers: Any = _transformers  # whose configs take more than their types say

_DECODER = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 704,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ENCODER = {**_DECODER, "intermediate_size": 1024}


def _text(prefix: str, settings: dict[str, Any], head: str = "ForCausalLM") -> Made:
    model_class = getattr(transformers, prefix + head)
    model = model_class(model_class.config_class(**settings))
    ids = torch.randint(3, VOCAB, (BATCH, LENGTH))
    return model, {"input_ids": ids, "labels": ids}


def _gpt2() -> Made:
    return _text("GPT2", {**_ENCODER, "n_embd": 256, "n_head": 4, "n_layer": 4}, "LMHeadModel")


def _distilbert() -> Made:
    settings = {**_ENCODER, "dim": 256, "n_heads": 4, "n_layers": 4, "hidden_dim": 1024}
    return _text("DistilBert", settings, "ForMaskedLM")


def _opt() -> Made:
    return _text("OPT", {**_ENCODER, "ffn_dim": 1024, "word_embed_proj_dim": 256})


def _t5() -> Made:
    sizes = {"d_model": 256, "d_kv": 64, "d_ff": 1024, "num_heads": 4, "num_layers": 4}
    return _text("T5", {**sizes, "vocab_size": VOCAB, "decoder_start_token_id": 0}, "ForConditionalGeneration")


def _mixtral() -> Made:
    return _text("Mixtral", {**_DECODER, "num_local_experts": 4, "num_experts_per_tok": 2})


def _gemma3() -> Made:
    return _text("Gemma3", {**_DECODER, "sliding_window": 512})


def _phi3() -> Made:
    return _text("Phi3", {**_DECODER, "original_max_position_embeddings": 512})


def _vit() -> Made:
    config = transformers.ViTConfig(**{**_ENCODER, **IMAGE}, num_labels=1000)
    pixels = torch.randn(BATCH, 3, IMAGE["image_size"], IMAGE["image_size"])
    return transformers.ViTForImageClassification(config), {
        "pixel_values": pixels,
        "labels": torch.randint(0, 1000, (BATCH,)),
    }


def _clip() -> Made:
    config = transformers.CLIPConfig(text_config=_ENCODER, vision_config={**_ENCODER, **IMAGE}, projection_dim=256)
    model = transformers.CLIPModel(config)
    given = {"input_ids": torch.randint(3, VOCAB, (BATCH, LENGTH)), "return_loss": True}
    return model, {**given, "pixel_values": torch.randn(BATCH, 3, IMAGE["image_size"], IMAGE["image_size"])}


def _whisper() -> Made:
    ffn = {"encoder_ffn_dim": 1024, "decoder_ffn_dim": 1024, "encoder_layers": 4, "decoder_layers": 4}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "d_model": 256}
    config = transformers.WhisperConfig(
        **{**_ENCODER, **ffn, **heads},
        max_source_positions=LENGTH,
        max_target_positions=LENGTH,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    features = torch.randn(BATCH, config.num_mel_bins, 2 * LENGTH)
    return model, {"input_features": features, "labels": torch.randint(3, VOCAB, (BATCH, LENGTH))}


FAMILIES: dict[str, Callable[[], Made]] = {
    "llama": lambda: _text("Llama", _DECODER),
    "mistral": lambda: _text("Mistral", _DECODER),
    "qwen2": lambda: _text("Qwen2", _DECODER),
    "qwen3": lambda: _text("Qwen3", _DECODER),
    "gemma2": lambda: _text("Gemma2", _DECODER),
    "gemma3": _gemma3,
    "phi3": _phi3,
    "mixtral": _mixtral,
    "glm4": lambda: _text("Glm4", _DECODER),
    "cohere": lambda: _text("Cohere", _DECODER),
    "gpt2": _gpt2,
    "gpt_neox": lambda: _text("GPTNeoX", _ENCODER),
    "opt": _opt,
    "bert": lambda: _text("Bert", _ENCODER, "ForMaskedLM"),
    "roberta": lambda: _text("Roberta", {**_ENCODER, "pad_token_id": 1}, "ForMaskedLM"),
    "distilbert": _distilbert,
    "t5": _t5,
    "vit": _vit,
    "clip": _clip,
    "whisper": _whisper,
}


def made(name: str) -> Made:
    """The model in training, with the same weights at each call, and its arguments."""
    torch.manual_seed(0)
    made: tuple[Any, dict[str, Any]] = FAMILIES[name]()
    model, given = made
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    return model.train(), given


def step_of(model: nn.Module, given: dict[str, Any], dtype: torch.dtype, *, autocast: bool) -> Callable[[], Tensor]:
    """A call of forward and backward, which gives the loss."""

    def step() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(**given).loss
        model.zero_grad(set_to_none=True)
        loss.backward()
        return loss.detach()

    if dtype != torch.float32 and not autocast:
        model.to(dtype)
        given = {name: it.to(dtype) if _is_floating(it) else it for name, it in given.items()}
    return step


def _is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def largest_difference(one: nn.Module, other: nn.Module) -> float:
    """Of gradients, relative to the largest value of each; of such as are zero but for rounding, to the model's."""
    pairs = [(a.grad, b.grad) for a, b in zip(one.parameters(), other.parameters(), strict=True)]
    pairs = [(a.float(), b.float()) for a, b in pairs if a is not None and b is not None]
    least = 1e-3 * max(b.abs().max().item() for _, b in pairs)
    return max(((a - b).abs().max() / b.abs().max().clamp(min=least)).item() for a, b in pairs)


def measured(name: str, dtype: torch.dtype, repeats: int, *, autocast: bool, evaluation: bool) -> Comparison:
    """One family in one dtype."""
    stock, given = made(name)
    stock.train(not evaluation)
    fused = copy.deepcopy(stock)
    fuse(fused)
    steps = [step_of(it, dict(given), dtype, autocast=autocast) for it in (fused, stock)]
    for step in steps:
        torch.manual_seed(1)
        step()
    note = f"gradients differ by {largest_difference(fused, stock):.1e}"
    kind = "autocast" if autocast else str(dtype).removeprefix("torch.")
    title = f"{name}, {kind}{', evaluation' if evaluation else ''}"
    return compare(title, *steps, theirs_name="stock", bar=BARS[dtype], repeats=repeats, note=note)


def run(repeats: int) -> list[Comparison]:
    """Measure all, in training, in float32 and with the whole model in bfloat16."""
    return [measured(name, dtype, repeats, autocast=False, evaluation=False) for name in FAMILIES for dtype in BARS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*FAMILIES, []], help="only these families")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="only this dtype")
    parser.add_argument("--autocast", action="store_true", help="bfloat16 by autocast, the weights in float32")
    parser.add_argument("--evaluation", action="store_true", help="without dropout: model.eval()")
    parser.add_argument("--results", type=Path, help="also write a file to this folder")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.get_num_threads()} threads")
    results = [
        measured(
            name,
            dtype,
            arguments.repeats,
            autocast=arguments.autocast and dtype != torch.float32,
            evaluation=arguments.evaluation,
        )
        for name in arguments.names or FAMILIES
        for dtype in BARS
        if arguments.dtype in (None, str(dtype).removeprefix("torch."))
    ]
    if arguments.results:
        print(f"written to {_results.write(arguments.results, {'models.families': results})}")


if __name__ == "__main__":
    main()
