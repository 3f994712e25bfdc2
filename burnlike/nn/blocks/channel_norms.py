"""Normalizations of the channels of an image. Imports no torch."""

from collections.abc import Iterator

from ...config.registry import tag_of
from ...errors import ConfigError
from ..norm.configs import LayerNormConfig, RmsNormConfig
from ..roles import NormalizationConfig


def misfits(norm: NormalizationConfig, *channels: int) -> Iterator[tuple[str, str]]:
    """The rules that `norm`, a field of a config, breaks as a normalization of images with these channels."""
    if isinstance(norm, LayerNormConfig | RmsNormConfig):
        yield (
            "norm",
            f"expected a normalization of channels, as BatchNorm, GroupNorm or InstanceNorm, got {tag_of(type(norm))}, "
            "which normalizes the last dimension",
        )
        return
    for count in channels:
        try:
            norm.with_num_features(count)
        except ConfigError as error:
            yield "norm", f"it has to fit {count} channels: {error}"
            return
