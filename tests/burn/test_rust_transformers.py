"""Tiny models of families of `transformers`, drawn at random, run and trained in Rust as in Python."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from .rust_models import Case, run, table

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.burn

_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_ENCODER = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}
_DECODER = {**_ENCODER, **_SPECIAL, "num_key_value_heads": 1}
_IMAGES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 16,
    "patch_size": 4,
}


def _words(length: int = 8) -> Tensor:
    return torch.randint(3, 64, (2, length))


def _text() -> dict[str, Tensor]:
    mask = torch.ones(2, 8, dtype=torch.int64)
    mask[1, 5:] = 0
    return {"input_ids": _words(), "attention_mask": mask}


def _pixels(size: int) -> Callable[[], dict[str, Tensor]]:
    return lambda: {"pixel_values": torch.randn(2, 3, size, size)}


def _model(kind: str, config: str, **options: Any) -> Callable[[], nn.Module]:
    """A model with weights so far from their defaults that a wrong mask or order shows."""

    def make() -> nn.Module:
        model = getattr(transformers, kind)(getattr(transformers, config)(**options))
        with torch.no_grad():
            for it in model.parameters():
                it.add_(torch.randn_like(it) * (0.2 if it.dim() > 1 else 0.1))
        return model

    return make


def _decoder(name: str, **options: Any) -> Callable[[], nn.Module]:
    return _model(f"{name}ForCausalLM", f"{name}Config", **{**_DECODER, **options})


def _depth_anything() -> nn.Module:
    images = {**_IMAGES, "num_hidden_layers": 4, "image_size": 28, "patch_size": 7}
    del images["intermediate_size"]
    stages = [f"stage{it}" for it in range(1, 5)]
    backbone = transformers.Dinov2Config(**images, out_features=stages, reshape_hidden_states=False)
    sizes = {"reassemble_hidden_size": 16, "patch_size": 7, "neck_hidden_sizes": [4, 8, 8, 16]}
    sizes |= {"fusion_hidden_size": 8, "head_hidden_size": 4}
    return _model("DepthAnythingForDepthEstimation", "DepthAnythingConfig", backbone_config=backbone, **sizes)()


_WHISPER = {
    **{f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")},
    "vocab_size": 64, "num_mel_bins": 8, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "d_model": 16,
    "max_source_positions": 10, "max_target_positions": 16, "decoder_start_token_id": 1,
    "suppress_tokens": None, "begin_suppress_tokens": None,
}  # fmt: skip
_WAV2VEC2 = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "conv_dim": (8, 8),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "apply_spec_augment": False,
    "layerdrop": 0.0,
}
_T5 = {
    "vocab_size": 64,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 32,
    "num_layers": 2,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
_GPT2 = {"vocab_size": 64, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, **_SPECIAL}
_MODERN = {"cls_token_id": 1, "sep_token_id": 2, "local_attention": 4, "num_hidden_layers": 3}
_CLIP = {
    "text_config": {**_ENCODER, **_SPECIAL, "projection_dim": 8},
    "vision_config": {**_IMAGES, "projection_dim": 8},
    "projection_dim": 8,
}

FAMILIES = {
    "bert": Case(_model("BertModel", "BertConfig", **_ENCODER), _text),
    "albert": Case(_model("AlbertModel", "AlbertConfig", **_ENCODER, embedding_size=8), _text),
    "minilm": Case(_model("BertModel", "BertConfig", **{**_ENCODER, "num_hidden_layers": 3}), _text),
    "modernbert": Case(_model("ModernBertModel", "ModernBertConfig", **{**_ENCODER, **_SPECIAL, **_MODERN}), _text),
    "gpt2": Case(_model("GPT2LMHeadModel", "GPT2Config", **_GPT2), _text),
    "llama": Case(_decoder("Llama"), _text),
    "smollm": Case(_decoder("Llama", tie_word_embeddings=True, num_key_value_heads=2), _text),
    "qwen2": Case(_decoder("Qwen2"), _text),
    "qwen3": Case(_decoder("Qwen3", head_dim=8), _text),
    "mistral": Case(_decoder("Mistral", sliding_window=4), _text),
    "gemma": Case(_decoder("Gemma", head_dim=8), _text),
    "phi": Case(_decoder("Phi", num_key_value_heads=2), _text),
    "t5": Case(
        _model("T5ForConditionalGeneration", "T5Config", **_T5, pad_token_id=0),
        lambda: {**_text(), "decoder_input_ids": _words(6)},
    ),
    "vit": Case(_model("ViTModel", "ViTConfig", **_IMAGES), _pixels(16)),
    "dinov2": Case(
        _model(
            "Dinov2Model", "Dinov2Config",
            **{name: it for name, it in _IMAGES.items() if name != "intermediate_size"},
        ),
        _pixels(16),
    ),
    "depth_anything": Case(_depth_anything, _pixels(28)),
    "clip": Case(_model("CLIPModel", "CLIPConfig", **_CLIP), lambda: {**_text(), **_pixels(16)()}),
    "whisper": Case(
        _model("WhisperForConditionalGeneration", "WhisperConfig", **_WHISPER, **_SPECIAL),
        lambda: {"input_features": torch.randn(2, 8, 20), "decoder_input_ids": _words(6)},
    ),
    "convnext": Case(
        _model("ConvNextForImageClassification", "ConvNextConfig", hidden_sizes=[8, 16], depths=[2, 1], num_stages=2),
        _pixels(32),
    ),
    "resnet": Case(
        _model(
            "ResNetForImageClassification", "ResNetConfig",
            embedding_size=8, hidden_sizes=[8, 16], depths=[2, 1], layer_type="basic",
        ),
        _pixels(32),
    ),
    "swin": Case(
        _model(
            "SwinModel", "SwinConfig",
            image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[2, 2], window_size=4,
            drop_path_rate=0.0,
        ),
        _pixels(32),
    ),
    "wav2vec2": Case(
        _model("Wav2Vec2Model", "Wav2Vec2Config", **_WAV2VEC2), lambda: {"input_values": torch.randn(2, 400)}
    ),
}  # fmt: skip
"""All are right in Rust."""
REFUSED = {
    "mixtral": (
        Case(_decoder("Mixtral", num_local_experts=2), _text),
        "model.layers.0.mlp.experts (MixtralExperts): Burn",
    ),
}


@pytest.mark.weekly
def test_families_of_transformers_are_in_rust_what_they_are_in_python(tmp_path: Path) -> None:
    results = run({**FAMILIES, **{name: it for name, (it, _) in REFUSED.items()}}, tmp_path, "transformers")
    refused = {name: results.pop(name) for name in REFUSED}
    assert {it.state for it in results.values()} == {"right"}, table(results)
    for name, it in refused.items():
        assert it.state == "refused", f"{name}: {it}"
        assert REFUSED[name][1] in it.says
