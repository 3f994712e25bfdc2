"""The configs of embeddings. Imports no torch."""

from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Size
from ..initializers.configs import Initializer, Normal

if TYPE_CHECKING:
    from . import embedding


class EmbeddingConfig(ModuleConfig["embedding.Embedding"], tag="Embedding"):
    """A table of vectors that is looked up by number.

    Attributes:
        n_embedding: rows of the table.
        d_model: size of each vector.
        initializer: of the table.
    """

    n_embedding: Size
    d_model: Size
    initializer: Initializer = Normal()
