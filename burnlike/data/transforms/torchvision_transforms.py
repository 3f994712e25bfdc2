"""Transforms of torchvision, for a MapperDataset."""

from torch import Tensor

from ...config import TransformConfig
from ...config.registry import fields_of, tag_of
from ...errors import ConfigError
from .images import Item, _image, _is_of


class Torchvision:
    """A transform of `torchvision.transforms.v2` of the image of an item, and of the masks of its pixels.

    Random numbers are those of torch's global generator.
    """

    def __init__(self, config: TransformConfig) -> None:
        """Make the transform that the tag of a config names; a ConfigError if torchvision is missing or refuses it."""
        name = (tag_of(type(config)) or "").removeprefix("torchvision.")
        options = {key: getattr(config, key) for key in fields_of(type(config)) if key != "parts"}
        try:
            from torchvision.transforms import v2  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ConfigError(
                f"type: torchvision.{name} needs the package torchvision: pip install 'burnlike[torchvision]'"
            ) from error
        if "interpolation" in options:
            options = {**options, "interpolation": v2.InterpolationMode(options["interpolation"])}
        if "policy" in options:
            options = {**options, "policy": v2.AutoAugmentPolicy(options["policy"])}
        self.name = name
        try:
            self.transform = getattr(v2, name)(**options)
        except (TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"transforms: torchvision.{name}: {error}") from error

    def __call__(self, item: Item) -> Item:
        from torchvision import tv_tensors  # pyright: ignore[reportMissingImports]

        image = _image(item, f"torchvision.{self.name}")
        keeps_masks = self.name == "RandomErasing"  # and warns of them
        places = [place for place, it in enumerate(item) if _is_of(it, image) and not (place and keeps_masks)]
        wrapped = [tv_tensors.Mask(item[it]) if it else tv_tensors.Image(image) for it in places]
        try:
            transformed = self.transform(*wrapped)
        except TypeError as error:
            if len(places) == 1 or "Mask" not in str(error):
                raise
            raise ConfigError(f"transforms: torchvision.{self.name} is for images without masks: {error}") from error
        changed = dict(zip(places, transformed if len(places) > 1 else [transformed], strict=True))
        return tuple(changed[it].as_subclass(Tensor) if it in changed else value for it, value in enumerate(item))
