"""Which class the root of a config file is of."""

import burnlike.config.registry as registry
from burnlike._lazy import resolve
from burnlike.config import Config, ModuleConfig
from burnlike.config.node import Node, child
from burnlike.errors import ConfigError

from .options import TRAIN_CONFIG


def root_class(root: Node) -> type[Config]:
    """TrainConfig, which has no `type:`, or what the root's `type:` names in any role.

    A `type:` that there is not is left to the reader of a ModuleConfig, which says what there is.
    """
    tag = child(root, registry.TAG_FIELD)
    if tag is None or not isinstance(tag.value, str):
        return resolve(TRAIN_CONFIG)
    try:
        return ModuleConfig if registry.lookup(ModuleConfig, tag.value) else registry.named(Config, tag.value)
    except ConfigError:
        return ModuleConfig
