"""A tiny model of each family of transformers, with dropout and weights that matter, and inputs for it."""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.auto import configuration_auto, modeling_auto

# Settings by the names that families have for them. What a family has under another name stays as it is.
_SETTINGS: dict[tuple[str, ...], Any] = {
    ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "encoder_hidden_size", "model_dim"): 32,
    ("decoder_hidden_size", "projection_dim", "encoder_embed_dim", "decoder_embed_dim"): 32,
    ("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "ffn_dim", "d_inner", "hidden_dim"): 48,
    ("n_inner", "mlp_hidden_size", "shared_expert_intermediate_size", "moe_intermediate_size", "d_inner_layer"): 48,
    ("decoder_intermediate_size", "expert_ffn_hidden_size", "shared_intermediate_size", "ffn_hidden_size"): 48,
    ("num_hidden_layers", "encoder_layers", "decoder_layers", "num_layers", "n_layer", "n_layers", "depth"): 2,
    ("num_decoder_layers", "num_encoder_layers", "decoder_num_hidden_layers", "num_blocks"): 2,
    ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads", "num_heads", "n_head", "n_heads"): 4,
    ("decoder_num_attention_heads", "num_decoder_attention_heads", "heads"): 4,
    ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "decoder_num_key_value_heads"): 2,
    ("head_dim", "d_kv", "attention_head_size", "v_head_dim", "qk_nope_head_dim", "key_value_size"): 8,
    ("qk_rope_head_dim", "q_lora_rank", "kv_lora_rank", "rotary_dim", "head_size"): 8,
    ("vocab_size", "text_vocab_size", "vocab_size_per_layer_input"): 64,
    ("max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions", "max_target_positions"): 64,
    ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"): 4,
    ("num_experts_per_tok", "moe_k", "moe_topk", "num_selected_experts"): 2,
    ("n_group", "topk_group", "num_nextn_predict_layers", "first_k_dense_replace"): 1,
    ("image_size",): 32,
    ("patch_size",): 8,
    ("embedding_size", "word_embed_proj_dim", "hidden_size_per_layer_input", "mamba_d_state", "state_size"): 16,
    ("mamba_n_heads", "mamba_num_heads", "linear_num_key_heads", "linear_num_value_heads"): 4,
    ("mamba_d_head", "mamba_head_dim", "linear_key_head_dim", "linear_value_head_dim"): 16,
    ("chunk_size", "mamba_chunk_size"): 8,
    ("pad_token_id", "bos_token_id", "decoder_start_token_id"): 1,
    ("eos_token_id", "sep_token_id", "cls_token_id"): 2,
    ("image_token_id", "image_token_index", "video_token_id", "audio_token_id"): 3,
}
_BY_NAME = {name: value for names, value in _SETTINGS.items() for name in names}
_RANDOM = 0.1
_LARGEST = 4_000_000

# The first of these that knows a family gives its model.
_TASKS = (
    "MODEL_FOR_CAUSAL_LM_MAPPING",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "MODEL_FOR_MASKED_LM_MAPPING",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",
    "MODEL_MAPPING",
)


class NotTiny(Exception):
    """Why there is no tiny model of a family."""


def families() -> list[str]:
    """The names of all families."""
    return sorted(configuration_auto.CONFIG_MAPPING_NAMES)


def _settings(variant: int) -> dict[str, Any]:
    """Settings by name: some families have sizes that must fit each other in ways of their own."""
    if variant in (0, 5):
        return _BY_NAME
    if variant == 1:
        return {**_BY_NAME, "num_key_value_heads": 4, "qk_nope_head_dim": 16, "v_head_dim": 16}
    if variant == 2:
        return {**_BY_NAME, "hidden_size": 64, "head_dim": 16, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16}
    if variant == 3:
        return {name: it for name, it in _BY_NAME.items() if it in (1, 2, 3, 64) or name in _WIDTHS}
    return {name: it for name, it in _BY_NAME.items() if it in (1, 2, 3, 64)}


# Of single families, which have sizes that must fit each other.
_OF_FAMILIES: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "diffllama": {"attention_dropout": 0.0},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "mamba2": {"head_dim": 16, "num_heads": 4},
}
_WITHOUT_DEFAULT = ("head_dim", "num_key_value_heads", "vocab_size", "pad_token_id")
_WIDTHS = {"hidden_size", "d_model", "intermediate_size", "num_attention_heads", "num_key_value_heads", "n_embd"}
VARIANTS = range(6)


def tiny_config(config_class: type[Any], variant: int) -> Any:
    """A config of a family with small sizes, in its parts too."""
    default = config_class()
    given: dict[str, Any] = {}
    settings = _settings(variant)
    for name, value in default.to_dict().items():
        is_size = isinstance(value, int) and not isinstance(value, bool) and name in settings
        if is_size or (value is None and variant == 5 and name in _WITHOUT_DEFAULT):
            given[name] = settings[name]
        elif isinstance(value, list | tuple) and name == "image_size":
            given[name] = [32] * len(value)
        elif isinstance(value, list | tuple) and name in ("depths", "hidden_sizes", "embed_dims", "conv_dim"):
            given[name] = [1 if name == "depths" else 16 * 2**place for place in range(len(value))]
        elif isinstance(value, float) and "drop" in name and "path" not in name:
            given[name] = _RANDOM
        elif name == "layer_types" and isinstance(value, list):
            given[name] = [*dict.fromkeys(value)][:2] * (1 if len({*value}) > 1 else 2)
    for name in getattr(config_class, "sub_configs", {}):
        part = getattr(default, name, None)
        if part is not None:
            given[name] = tiny_config(type(part), variant).to_dict()
    given.update(_OF_FAMILIES.get(getattr(default, "model_type", ""), {}))
    return config_class(**given)


def _model_class(config_class: type[Any]) -> Any:
    for task in _TASKS:
        found: Any = getattr(modeling_auto, task).get(config_class, None)
        if found is not None:
            return found[0] if isinstance(found, tuple | list) else found
    raise NotTiny("is a part of other families")


def _model(family: str, variant: int) -> nn.Module:
    config_class = configuration_auto.CONFIG_MAPPING[family]
    model_class = _model_class(config_class)
    config = tiny_config(config_class, variant)
    with torch.device("meta"):
        size = sum(it.numel() for it in model_class(config).parameters())
    if size > _LARGEST:
        raise NotTiny("has sizes that are not small by these settings")
    torch.manual_seed(0)
    model = model_class(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 100
            parameter.add_(1.5 * fan_in**-0.5 * torch.randn(parameter.shape, generator=generator))
    return model.float()


def inputs_of(model: Any) -> Iterator[dict[str, Tensor]]:
    """Inputs that the model's forward may take: text, images, both, sound."""
    config, names = model.config, inspect.signature(model.forward).parameters
    generator = torch.Generator().manual_seed(2)
    text, image = {}, {}
    if "input_ids" in names:
        text = {"input_ids": torch.randint(4, 60, (2, 9), generator=generator)}
        if "decoder_input_ids" in names:
            text["decoder_input_ids"] = torch.randint(4, 60, (2, 7), generator=generator)
    if "pixel_values" in names:
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", 32)
        height, width = size if isinstance(size, tuple | list) else (size, size)
        channels = getattr(vision, "num_channels", 3)
        image = {"pixel_values": torch.randn(2, channels, height, width, generator=generator)}
    if text and "labels" in names:
        yield {**text, "labels": text.get("decoder_input_ids", text["input_ids"])}
    yield from (it for it in (text, image, {**text, **image}) if it)
    if "input_values" in names:
        yield {"input_values": torch.randn(2, 2000, generator=generator)}
    if "input_features" in names:
        bins = getattr(config, "num_mel_bins", 80)
        for sizes in ((2, bins, 128), (2, 40, bins)):
            yield {"input_features": torch.randn(sizes, generator=generator), **text}
            if "decoder_input_ids" in names:
                ids = torch.randint(4, 60, (2, 7), generator=generator)
                yield {"input_features": torch.randn(sizes, generator=generator), "decoder_input_ids": ids}


def tiny_model(family: str) -> tuple[Any, dict[str, Tensor]]:
    """A tiny model, whose weights are large enough for attention to differ between tokens, and what it takes."""
    reason = "can't be made by these settings"
    for variant in VARIANTS:
        try:
            model = _model(family, variant)
        except NotTiny as error:
            reason = str(error) if variant == 0 else reason
            continue
        except Exception:  # foreign code refuses sizes in many ways
            continue
        for inputs in inputs_of(model):
            try:
                if _runs(model, inputs):
                    return model, inputs
            except Exception:  # of a foreign model, which says in many ways that an input is not its own
                continue
        reason = "runs with none of these inputs"
    raise NotTiny(reason)


def _runs(model: Any, inputs: dict[str, Tensor]) -> bool:
    """Whether the model gives numbers and gradients, in training and in evaluation."""
    for training in (False, True):
        results = tensors_of(model.train(training)(**inputs))
        if not results or not all(bool(it.isfinite().all()) for it in results):
            return False
        torch.stack([it.sum() for it in results if it.requires_grad]).sum().backward()
        model.zero_grad()
    return True


def tensors_of(result: Any) -> list[Tensor]:
    """The floating-point tensors in a model's result; caches are left out."""
    if isinstance(result, Tensor):
        return [result] if result.is_floating_point() else []
    if isinstance(result, dict):
        return [tensor for name, it in result.items() if "past" not in name for tensor in tensors_of(it)]
    return [tensor for it in result for tensor in tensors_of(it)] if isinstance(result, tuple | list) else []
