"""Tiny directories of transformers, as `save_pretrained` writes them."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers

from burnlike.models import PretrainedConfig

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}
VOCABULARY = 40


def saved(directory: Path, model_class: Any, seed: int = 0, shard: str = "1GB", **options: Any) -> Path:
    """A directory with a tiny model of a class, whose weights are large enough to matter."""
    torch.manual_seed(seed)
    model = model_class(model_class.config_class(**{**SIZES, "vocab_size": VOCABULARY, **options}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(directory, max_shard_size=shard)
    return directory


def bert(directory: Path, model_class: Any = transformers.BertForMaskedLM, **options: Any) -> Path:
    return saved(directory, model_class, **options)


def llama(directory: Path, model_class: Any = transformers.LlamaForCausalLM, **options: Any) -> Path:
    return saved(directory, model_class, **options)


def vit(directory: Path, **options: Any) -> Path:
    sizes = {"image_size": 8, "patch_size": 4, "num_channels": 1}
    return saved(directory, transformers.ViTForImageClassification, **sizes, **options)


def changed(directory: Path, **values: Any) -> None:
    """Give keys of the `config.json` other values; None removes one."""
    path = directory / "config.json"
    found = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: it for key, it in found.items() if it is not None}))


def built(directory: Path, device: str = "cpu", **fields: Any) -> Any:
    return PretrainedConfig(path=str(directory), **fields).init(device)


def tokens(count: int = 2, length: int = 7) -> torch.Tensor:
    return torch.randint(VOCABULARY, (count, length), generator=torch.Generator().manual_seed(3))
