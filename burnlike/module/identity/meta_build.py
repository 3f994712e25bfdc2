"""Builds modules of configs without values: on the meta device, where nothing is computed or allocated."""

from typing import Any

import torch
from torch import nn

from ...errors import ConfigError


def build_on_meta(config: Any) -> nn.Module:
    """The module of a config, on the meta device.

    Args:
        config: has `init(device)`, as a ModuleConfig.

    Raises:
        ConfigError: a tensor of it would have more bytes than 64 bits can count.
        BurnlikeError: the config can't be built.
    """
    try:
        with torch.device("meta"):
            return config.init("meta")
    except RuntimeError as error:
        if "overflow" in str(error):
            raise ConfigError(f"{type(config).__name__}: larger than any memory ({error}); lower its sizes") from error
        raise
