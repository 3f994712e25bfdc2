"""The `config.json` of a model of ours, as transformers has it: the other way round of the tables' `config`.

A candidate is made for each table that could fit; whether it says the model is decided by reading it back, so that what
a table can't say is found by the one reader of such files. Imports no torch.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...config import ModuleConfig
from ...errors import BurnlikeError, ConfigError
from ...nn.attention.scaling_configs import DynamicScaling, LinearScaling, Llama3Scaling, RotaryScaling, YarnScaling
from ...nn.padding import each
from ...nn.roles import ActivationConfig
from ..convolutional.configs import ConvNextConfig, ResNetConfig
from ..decoder_lm.configs import DecoderLmConfig, ExpertsPart, GatedPart, PlainPart, RotaryPositions
from ..encoder_decoder.configs import EncoderDecoderConfig
from ..encoders.configs import BertClassifierConfig, BertEncoderConfig, BertMaskedLmConfig, VisionTransformerConfig
from .options import ACTIVATIONS

Values = dict[str, Any]
_TRAINING_ONLY = ("dropout", "attention_dropout", "drop_path", "zero_last")
"""Fields that change nothing of a model in evaluation, and that some tables can't say."""


def description_of(config: ModuleConfig, read: Callable[[Mapping[str, Any]], ModuleConfig]) -> Values:
    """The content of a `config.json` that says the model of `config`.

    Args:
        read: the config of ours that a content says, as `pretrained_config` reads it.

    Raises:
        ConfigError: no table can say such a model; the message has what each says otherwise.
    """
    reasons: list[str] = []
    for values in _candidates(config):
        try:
            read_config = read(values)
        except BurnlikeError as error:
            reasons.append(f"{values['model_type']}: {' '.join(str(error).split())}")
            continue
        wanted, got = _compared(config), _compared(read_config)
        if wanted == got:
            return values
        others = [name for name in wanted if wanted[name] != got.get(name)]
        others_as_text = ", ".join(f"{name}: {got.get(name)}" for name in others)
        reasons.append(f"{values['model_type']} has {others_as_text}")
    kind = type(config).__name__.removesuffix("Config")
    listed = "; ".join(reasons) or "there is no table of its weights"
    raise ConfigError(f"{kind}: transformers has no such model ({listed})")


def _compared(config: Any) -> Values:
    """The fields of a config that say what is computed in evaluation, defaults written out."""
    if isinstance(config, DecoderLmConfig):
        config = config.replace(n_heads_kv=config.n_heads_kv or config.n_heads, d_head=config.head_size)
        if isinstance(config.feed_forward, ExpertsPart):
            config = config.replace(feed_forward=config.feed_forward.replace(balance=0.0))
    if isinstance(config, EncoderDecoderConfig):
        config = config.replace(n_decoder_layers=config.n_decoder_layers or config.n_layers)
    if isinstance(config, VisionTransformerConfig):
        config = config.replace(image_size=each(config.image_size, 2), patch_size=each(config.patch_size, 2))
    values = config.to_dict()
    if isinstance(config, ResNetConfig):
        values["norm"]["num_features"] = None
    for part in (values, values.get("encoder", {})):
        for name in _TRAINING_ONLY:
            part.pop(name, None)
    return values


def _candidates(config: Any) -> Iterator[Values]:
    match config:
        case DecoderLmConfig(positions=RotaryPositions()):
            yield from _like_llama(config)
        case DecoderLmConfig():
            yield _gpt2(config)
        case BertEncoderConfig():
            yield {**_bert(config), "architectures": ["BertModel"]}
        case BertMaskedLmConfig():
            yield {**_bert(config.encoder), "architectures": ["BertForMaskedLM"]}
        case BertClassifierConfig():
            head = {"classifier_dropout": config.dropout, **_classes(config.n_classes)}
            yield {**_bert(config.encoder), "architectures": ["BertForSequenceClassification"], **head}
        case VisionTransformerConfig():
            sizes = {"image_size": _size(config.image_size), "patch_size": _size(config.patch_size)}
            yield {
                "model_type": "vit",
                **_of_images("ViT", config),
                **_layers(config),
                **sizes,
                "hidden_dropout_prob": config.dropout,
                "attention_probs_dropout_prob": config.attention_dropout,
            }
        case ResNetConfig():
            sizes = {"depths": [*config.depths], "hidden_sizes": [*config.widths]}
            stem = {"embedding_size": config.stem_channels, "layer_type": config.block.lower(), "hidden_act": "relu"}
            yield {"model_type": "resnet", **_of_images("ResNet", config), **sizes, **stem}
        case ConvNextConfig():
            sizes = {"depths": [*config.depths], "hidden_sizes": [*config.widths], "num_stages": len(config.depths)}
            yield {
                "model_type": "convnext",
                **_of_images("ConvNext", config),
                **sizes,
                "patch_size": config.patch_size,
                "drop_path_rate": config.drop_path,
                "layer_scale_init_value": config.layer_scale,
                "hidden_act": _name(config.activation),
                "layer_norm_eps": config.head_epsilon,
            }
        case EncoderDecoderConfig():
            yield _t5(config)
        case _:
            pass


def _like_llama(config: DecoderLmConfig) -> Iterator[Values]:
    part: Any = config.feed_forward
    values = {
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_sequence_length,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_heads_kv or config.n_heads,
        "head_dim": config.head_size,
        "intermediate_size": config.d_ff,
        "rms_norm_eps": config.norm_epsilon,
        "hidden_act": _name(part.activation),
        "tie_word_embeddings": config.tied,
        "attention_dropout": 0.0,
        "rope_theta": config.theta,
    }
    assert isinstance(config.positions, RotaryPositions)
    if config.positions.scaling is not None:
        values["rope_scaling"] = _scaling(config.positions.scaling)
    window = {"sliding_window": config.sliding_window}
    kinds: dict[str, tuple[str, Values]] = {}
    if isinstance(part, ExpertsPart):
        experts = {"num_local_experts": part.n_experts, "num_experts_per_tok": part.n_selected}
        kinds["mixtral"] = ("Mixtral", {**window, **experts, "router_aux_loss_coef": part.balance})
    elif isinstance(part, GatedPart):
        biases = {"attention_bias": config.attention_bias, "mlp_bias": part.bias}
        kind = "full_attention" if config.sliding_window is None else "sliding_attention"
        used = {"use_sliding_window": config.sliding_window is not None, "layer_types": [kind] * config.n_layers}
        kinds["llama"] = ("Llama", biases)
        kinds["qwen2"] = ("Qwen2", {**window, **used})
        kinds["qwen3"] = ("Qwen3", {**window, **used, "attention_bias": config.attention_bias})
        kinds["mistral"] = ("Mistral", window)
    for model_type, (name, config_class) in kinds.items():
        architecture = f"{name}ForCausalLM" if config.head else f"{name}Model"
        yield {"model_type": model_type, "architectures": [architecture], **values, **config_class}


def _scaling(scaling: RotaryScaling) -> Values:
    match scaling:
        case LinearScaling():
            return {"rope_type": "linear", "factor": scaling.factor}
        case DynamicScaling():
            return {"rope_type": "dynamic", "factor": scaling.factor}
        case Llama3Scaling():
            factors = {name: getattr(scaling, name) for name in ("factor", "low_freq_factor", "high_freq_factor")}
            return {"rope_type": "llama3", **factors, "original_max_position_embeddings": scaling.original_length}
        case YarnScaling():
            names = ("factor", "beta_fast", "beta_slow", "attention_factor", "truncate")
            scaling_fields = {name: getattr(scaling, name) for name in names if getattr(scaling, name) is not None}
            return {"rope_type": "yarn", **scaling_fields, "original_max_position_embeddings": scaling.original_length}
        case _:
            raise ConfigError(f"{type(scaling).__name__}: transformers has no such scaling of rotary positions")


def _gpt2(config: DecoderLmConfig) -> Values:
    part = config.feed_forward
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel" if config.head else "GPT2Model"],
        "vocab_size": config.vocab_size,
        "n_positions": config.max_sequence_length,
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": config.d_ff,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), config.dropout),
        "layer_norm_epsilon": config.norm_epsilon,
        "activation_function": _name(part.activation) if isinstance(part, PlainPart) else "gelu_new",
        "tie_word_embeddings": config.tied,
    }


def _bert(config: BertEncoderConfig) -> Values:
    return {
        "model_type": "bert",
        **_layers(config),
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_sequence_length,
        "type_vocab_size": config.n_token_types,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
    }


def _t5(config: EncoderDecoderConfig) -> Values:
    name = _name(config.activation)
    kind = f"{'gated-' * config.gated}{'gelu' if config.gated and name == 'gelu_new' else name}"
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "d_model": config.d_model,
        "num_layers": config.n_layers,
        "num_decoder_layers": config.n_decoder_layers or config.n_layers,
        "num_heads": config.n_heads,
        "d_kv": config.d_head,
        "d_ff": config.d_ff,
        "feed_forward_proj": kind,
        "dropout_rate": config.dropout,
        "relative_attention_num_buckets": config.n_buckets,
        "relative_attention_max_distance": config.max_distance,
        "tie_word_embeddings": config.tied_head,
        "layer_norm_epsilon": config.norm_epsilon,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
    }


def _layers(config: Any) -> Values:
    return {
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "intermediate_size": config.d_ff,
        "hidden_act": _name(config.activation),
        "layer_norm_eps": config.norm_epsilon,
    }


def _of_images(name: str, config: Any) -> Values:
    kind = "Model" if config.num_classes is None else "ForImageClassification"
    classes = {} if config.num_classes is None else _classes(config.num_classes)
    return {"architectures": [f"{name}{kind}"], "num_channels": config.channels, **classes}


def _classes(count: int) -> Values:
    """Names of classes, by whose number transformers knows how many there are."""
    names = [f"LABEL_{number}" for number in range(count)]
    return {"id2label": dict(enumerate(names)), "label2id": {name: at for at, name in enumerate(names)}}


def _size(size: Any) -> int | list[int]:
    height, width = each(size, 2)
    return height if height == width else [height, width]


def _name(activation: ActivationConfig) -> str:
    """The name of an activation in transformers; the first of several that mean the same."""
    theirs = next((name for name, it in ACTIVATIONS.items() if it == activation), None)
    if theirs is None:
        kind = type(activation).__name__.removesuffix("Config")
        raise ConfigError(f"activation: transformers has no {kind} with such values")
    return {"gelu_accurate": "gelu_new"}.get(theirs, theirs)
