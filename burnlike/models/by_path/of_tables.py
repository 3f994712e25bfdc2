"""burnlike's own model for a directory of transformers, by the tables of weights; a head that it lacks is a new one."""

from typing import Any

import torch
from torch import nn

from ...config import ModuleConfig
from ...errors import ConfigError
from ...record import open_record
from ..pretrained import load_pretrained, pretrained_config
from ..pretrained_description import DTYPES
from ..weights.table import WeightTable, weight_tables
from .configs import PretrainedConfig
from .directory import read_description, weights_of

_ENDS = {
    "SequenceClassification": ("ForSequenceClassification", "ForImageClassification"),
    "CausalLM": ("ForCausalLM", "LMHeadModel"),
    "Seq2SeqLM": ("ForConditionalGeneration", "WithLMHeadModel"),
}
"""How the names of architectures end that have a head; of the others as `ForMaskedLM`."""


def of_tables(config: PretrainedConfig, directory: str, target: torch.device) -> nn.Module:
    """The model of burnlike with the weights of a directory, in training mode; a head that these lack is drawn."""
    saved_config = own_config(config, directory)
    if target.type == "meta" or config.weights == "random":
        return saved_config.init(target)
    dtype = None if config.dtype is None else DTYPES[config.dtype]
    if saved_config == pretrained_config(directory):
        model: Any = load_pretrained(directory, target, dtype=dtype)
        model.burnlike_origin = (f"weights   all tensors of {directory}",)
        return model.train()
    base = _backbone(directory, dtype)
    model = saved_config.init("cpu")
    path, part = next((it for it in model.named_modules() if type(it[1]) is type(base)), ("", None))
    if part is None:
        raise ConfigError(f"{directory}: burnlike's {type(model).__name__} has no {type(base).__name__} in it")
    report = part.load_record(base.into_record(), strict=False)
    read = {f"{path}.{name}" if path else name for name in report.applied}
    drawn = [name for name, _ in model.named_parameters() if name not in read]
    count = sum(1 for _ in model.parameters())
    rest = f"; drawn: {', '.join(drawn)}" if drawn else ""
    vars(model)["_burnlike_drawn"] = tuple(drawn)
    model.burnlike_origin = (f"weights   {count - len(drawn)} of {count} tensors of {directory}{rest}",)
    return model.to(target, next(base.parameters()).dtype).train()


def own_config(config: PretrainedConfig, directory: str) -> ModuleConfig:
    """The config of burnlike's model for a directory, with the head and the classes of `config`."""
    description = pretrained_config(directory, _architecture(config, directory))
    count = len(config.classes) if config.classes is not None else config.n_classes
    field = next((it for it in ("n_classes", "num_classes") if hasattr(description, it)), None)
    if count is None or field is None:
        return description
    return description.replace(**{field: count})


def _architecture(config: PretrainedConfig, directory: str) -> str | None:
    """The architecture of the table that has the head; None for the one that the directory names."""
    values = read_description(directory)
    table = next((it for it in weight_tables().values() if values.get("model_type") in it.model_types), None)
    if config.head is None or table is None:  # without a table it is an error of `pretrained_config`
        return None
    ends = _ENDS.get(config.head, (f"For{config.head}",))
    named = [name for name in values.get("architectures") or table.architectures[:1] if name in table.architectures]
    fitting = [name for name in (*named, *table.architectures) if name.endswith(ends)]
    if not fitting:
        raise ConfigError(
            f"library: burnlike has no {config.head} of a {table.name}, but {', '.join(table.architectures)}; leave out"
            " `library: burnlike`"
        )
    return fitting[0]


def _backbone(directory: str, dtype: torch.dtype | None) -> Any:
    """The model of a directory without its head."""
    values = read_description(directory)
    table: WeightTable = next(it for it in weight_tables().values() if values["model_type"] in it.model_types)
    name = next((it for it in table.architectures if it.endswith("Model") and not it.endswith("HeadModel")), None)
    if name is None:
        raise ConfigError(f"{directory}: burnlike's model of a {table.name} takes no new head; leave out `library`")
    config: Any = pretrained_config(directory, name)
    if getattr(config, "pooler", False) and not any(
        "pooler" in it for it in open_record(weights_of(directory)).tensors
    ):
        config = config.replace(pooler=False)
    return load_pretrained(directory, "cpu", dtype=dtype, config=config, architecture=name)
