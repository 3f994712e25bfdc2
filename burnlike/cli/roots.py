"""Which class the root of a config file is of."""

import burnlike.config.registry as registry
from burnlike._lazy import resolve
from burnlike.config import Config, ModuleConfig
from burnlike.config.defaults import DEFAULTS
from burnlike.config.node import Node, child
from burnlike.config.root_keys import EXTENSION, INPUTS
from burnlike.errors import ConfigError

from .options import TRAIN_CONFIG


def root_class(root: Node) -> type[Config]:
    """TrainConfig, which has no `type:`, or what the root's `type:` names in any role.

    A root without `type:` whose keys are those of a model, and none of a training, is taken for a model that lacks it.

    A `type:` that there is not is left to the reader of a ModuleConfig, which says what there is.
    """
    tag = child(root, registry.TAG_FIELD)
    if tag is None or not isinstance(tag.value, str):
        training = resolve(TRAIN_CONFIG)
        keys = {key for key in root.value if not key.startswith(EXTENSION) and key != INPUTS} if root.is_map else set()
        if tag is not None or not keys or keys & {DEFAULTS, *registry.fields_of(training)}:
            return training
        registry.load_built_in()
        is_model = any(keys <= registry.fields_of(it).keys() for it in registry.imported(ModuleConfig).values())
        return ModuleConfig if is_model else training
    try:
        return ModuleConfig if registry.lookup(ModuleConfig, tag.value) else registry.named(Config, tag.value)
    except ConfigError:
        return ModuleConfig
