"""The config of vision transformers. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from ...config import ModuleConfig
from ...config.bounds import Layers, NotNegative, Size
from ...nn.activation.rectifier_configs import GeluConfig
from ...nn.attention.configs import Probability
from ...nn.padding import Size2d, each
from ...nn.roles import ActivationConfig

if TYPE_CHECKING:
    from .model import VisionTransformer


class VisionTransformerConfig(ModuleConfig["VisionTransformer"], tag="VisionTransformer", builds=".model"):
    """A transformer that classifies images by their patches (Dosovitskiy et al. 2021).

    Attributes:
        num_classes: of the result; None for no head, whose input is the result then.
        image_size: of the images; one size, or `[height, width]`, as in patch_size.
        patch_size: of the patches, which don't overlap; must divide image_size.
        channels: of the image.
        d_model: size of a patch's vector.
        n_layers: blocks.
        n_heads: attention heads of a block; must divide d_model.
        d_ff: inner size of the feed-forward parts.
        dropout: probability of dropping a value of the patches' vectors and of each part's output in training.
        attention_dropout: probability of dropping an attention weight in training.
        drop_path: probability that a part of the last block is left out for an item in training; it grows from 0 at the
            first.
        activation: of the feed-forward parts.
        norm_epsilon: of all norms.

    Example:
        >>> VisionTransformerConfig.small(num_classes=10, image_size=32, patch_size=4).n_patches
        64
    """

    num_classes: Size | None = 1000
    image_size: Size2d = 224
    patch_size: Size2d = 16
    channels: Size = 3
    d_model: Size = 768
    n_layers: Layers = 12
    n_heads: Size = 12
    d_ff: Size = 3072
    dropout: Probability = 0.0
    attention_dropout: Probability = 0.0
    drop_path: Probability = 0.0
    activation: ActivationConfig = GeluConfig()
    norm_epsilon: NotNegative = 1e-6

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.d_model % self.n_heads:
            yield "n_heads", f"expected a divisor of d_model ({self.d_model}), got {self.n_heads}"
        image, patch = each(self.image_size, 2), each(self.patch_size, 2)
        if any(size % its for size, its in zip(image, patch, strict=True)):
            yield "patch_size", f"expected a divisor of image_size ({list(image)}), got {list(patch)}"

    @property
    def grid(self) -> tuple[int, int]:
        """Height and width of an image, in patches."""
        (height, width), (patch_height, patch_width) = each(self.image_size, 2), each(self.patch_size, 2)
        return height // patch_height, width // patch_width

    @property
    def n_patches(self) -> int:
        """The number of patches of an image."""
        return self.grid[0] * self.grid[1]

    @classmethod
    def tiny(cls, **fields: Any) -> Self:
        """6 million parameters (Touvron et al. 2021, table 1); `fields` are those of the config, as in all of these."""
        return cls(**{"d_model": 192, "n_heads": 3, "d_ff": 768, **fields})

    @classmethod
    def small(cls, **fields: Any) -> Self:
        """22 million parameters (Touvron et al. 2021, table 1)."""
        return cls(**{"d_model": 384, "n_heads": 6, "d_ff": 1536, **fields})

    @classmethod
    def base(cls, **fields: Any) -> Self:
        """86 million parameters (Dosovitskiy et al. 2021, table 1)."""
        return cls(**fields)

    @classmethod
    def large(cls, **fields: Any) -> Self:
        """307 million parameters (Dosovitskiy et al. 2021, table 1)."""
        return cls(**{"d_model": 1024, "n_layers": 24, "n_heads": 16, "d_ff": 4096, **fields})

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"x": ("float32", (1, self.channels, *each(self.image_size, 2)))}
