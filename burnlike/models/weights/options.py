"""Options in a `config.json` of Hugging Face, as fields of our configs, and those of no effect. Imports no torch."""

from collections import UserDict
from collections.abc import Collection, Mapping
from typing import Any

from ...errors import ConfigError, nearest
from ...nn.activation.configs import (
    GeluConfig,
    HardSwishConfig,
    LeakyReluConfig,
    MishConfig,
    Relu6Config,
    ReluConfig,
    SigmoidConfig,
    SiLUConfig,
    TanhConfig,
)
from ...nn.roles import ActivationConfig

ACTIVATIONS: Mapping[str, ActivationConfig] = {
    **dict.fromkeys(("gelu", "gelu_python"), GeluConfig()),
    **dict.fromkeys(("gelu_accurate", "gelu_fast", "gelu_new"), GeluConfig(approximate=True)),
    **dict.fromkeys(("gelu_python_tanh", "gelu_pytorch_tanh"), GeluConfig(approximate=True)),
    "hardswish": HardSwishConfig(),
    "leaky_relu": LeakyReluConfig(),
    "mish": MishConfig(),
    "relu": ReluConfig(),
    "relu6": Relu6Config(),
    "sigmoid": SigmoidConfig(),
    "silu": SiLUConfig(),
    "swish": SiLUConfig(),
    "tanh": TanhConfig(),
}


class Options(UserDict[str, Any]):
    """The content of a `config.json`, or of a mapping in it, that remembers which keys were read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._read: set[str] = set()
        self._within: dict[str, Options] = {}

    def __getitem__(self, key: str) -> Any:
        value = self.data[key]
        self._read.add(key)
        return value

    def within(self, key: str) -> "Options":
        """The mapping at a key, whose keys are remembered, too."""
        return self._within.setdefault(key, Options(self[key]))

    def unread(self, harmless: Collection[str]) -> list[str]:
        """The keys that nothing has read, but the `harmless` ones; those within mappings by dotted names."""
        names = [key for key in self.data if key not in self._read and key not in harmless]
        return names + [f"{key}.{name}" for key, inner in self._within.items() for name in inner.unread(())]


def activation_of(values: Mapping[str, Any], default: str, key: str = "hidden_act") -> ActivationConfig:
    """The activation that transformers calls what stands at a key."""
    name = text_of(values, key, default)
    if name not in ACTIVATIONS:
        hint = nearest(name[:80], [*ACTIVATIONS])
        activations = ", ".join(ACTIVATIONS)
        raise ConfigError(f"{key}: there is no activation {shown(name)}{hint}; expected one of {activations}")
    return ACTIVATIONS[name]


def refuse_others(values: Mapping[str, Any], kind: str, **expected: Any) -> None:
    """Raise a ConfigError for options that `kind`, a model of ours, has only with `expected` values, the defaults."""
    wrong = [
        f"{name}: expected {value!r}, got {shown(values[name])}"
        for name, value in expected.items()
        if values.get(name, value) != value
    ]
    if wrong:
        raise ConfigError(f"{kind} has no such model\n" + "\n".join(f"  {it}" for it in wrong))


def shown(value: Any) -> str:
    """A value of a file in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def text_of(values: Mapping[str, Any], key: str, default: str) -> str:
    return _expect(isinstance(value := values.get(key, default), str), key, "a text", value)


def int_of(values: Mapping[str, Any], key: str, default: int) -> int:
    return _expect(type(value := values.get(key, default)) is int, key, "an integer", value)


def float_of(values: Mapping[str, Any], key: str, default: float) -> float:
    return _expect(type(value := values.get(key, default)) in (int, float), key, "a number", value)


def sizes_of(values: Mapping[str, Any], key: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = values.get(key, default)
    fits = isinstance(value, list | tuple) and all(isinstance(it, int) for it in value)
    return tuple(_expect(fits, key, "a list of integers", value))


def _expect(fits: bool, key: str, expected: str, value: Any) -> Any:
    """The value at a key; a ConfigError if it does not fit."""
    if not fits:
        raise ConfigError(f"{key}: expected {expected}, got {shown(value)}")
    return value


def mapping_of(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The mapping at a key, an empty one where there is none or null."""
    if (value := values.get(key)) is None:
        return {}
    _expect(isinstance(value, Mapping), key, "a mapping", value)
    return values.within(key) if isinstance(values, Options) else value


def num_classes_of(values: Mapping[str, Any]) -> int:
    """The number of classes of a classifier, which is the number of its labels if there is none."""
    labels = values.get("id2label")
    _expect(labels is None or isinstance(labels, Mapping), "id2label", "a mapping", labels)
    return int_of(values, "num_labels", 2 if labels is None else len(labels))


def is_backbone(values: Mapping[str, Any]) -> bool:
    """True if `architectures` names a model without a head, as `LlamaModel`."""
    return any(it.endswith("Model") and not it.endswith("HeadModel") for it in values.get("architectures") or ())


HARMLESS: dict[str, tuple[str, ...]] = {
    "They say who wrote the file, with what, and whose it is.": (
        *("_commit_hash", "_name_or_path", "_num_labels", "finetuning_task", "is_llama_config", "model_type"),
        *("name_or_path", "task_specific_params", "tokenizer_class", "transformers.js_config", "transformers_version"),
        *("unsloth_fixed", "unsloth_version"),
        "architectures",  # compared with those of the table before
        *("dtype", "torch_dtype"),  # read where weights are
    ),
    "They say what a call returns beside the same logits, or by which program it computes them.": (
        *("_attn_implementation_autoset", "_flash_attn_2_enabled", "attn_implementation", "chunk_size_feed_forward"),
        *("experts_implementation", "gradient_checkpointing", "output_attentions", "output_hidden_states"),
        *("output_past", "output_router_logits", "return_dict", "return_dict_in_generate", "output_scores"),
        *("output_logits", "tie_last_hidden_states", "torchscript", "use_bfloat16", "use_cache", "tf_legacy_loss"),
    ),
    "They name tokens, or how `generate` of transformers draws them; ours gets that in a call.": (
        *("assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind", "bad_words_ids"),
        *("begin_suppress_tokens", "bos_token_id", "cache_config", "cache_implementation", "compile_config"),
        *("constraints", "custom_generate", "decoder_start_token_id", "disable_compile", "diversity_penalty"),
        *("do_sample", "dola_layers", "early_stopping", "encoder_no_repeat_ngram_size"),
        *("encoder_repetition_penalty", "eos_token_id", "epsilon_cutoff", "eta_cutoff"),
        *("exponential_decay_length_penalty", "force_words_ids", "forced_bos_token_id", "forced_decoder_ids"),
        *("forced_eos_token_id", "guidance_scale", "is_assistant", "length_penalty", "low_memory", "max_length"),
        *("max_matching_ngram_size", "max_new_tokens", "max_time", "min_length", "min_new_tokens", "min_p"),
        *("no_repeat_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule", "num_beam_groups"),
        *("num_beams", "num_return_sequences", "pad_token_id", "penalty_alpha", "prefill_chunk_size", "prefix"),
        *("prompt_lookup_num_tokens", "remove_invalid_values", "renormalize_logits", "repetition_penalty"),
        *("sep_token_id", "sequence_bias", "stop_strings", "suppress_tokens", "target_lookbehind", "temperature"),
        *("token_healing", "top_h", "top_k", "top_p", "typical_p", "watermarking_config"),
    ),
    "They name classes or choose the loss; the number of classes is read.": (
        *("id2label", "label2id", "num_labels", "problem_type"),
    ),
    "Training began with them, or has them alone.": (
        *("initializer_factor", "initializer_range", "neftune_noise_alpha"),
    ),
}
"""Why keys of a `config.json` change nothing that a model computes in evaluation -> the keys."""

KEYS = frozenset(key for keys in HARMLESS.values() for key in keys)
