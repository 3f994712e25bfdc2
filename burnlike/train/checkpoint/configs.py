"""Config of where checkpoints go; torch is not loaded for it."""

from collections.abc import Iterable
from typing import Annotated

from ...config import Config, Meta


class CheckpointConfig(Config):
    """Where the checkpoints of a run go, beside its directory.

    Attributes:
        gather: of processes on machines without a common file system: rank 0 gets the parts of all and writes them, and
            sends them when a run goes on.
        mirror: a place that has a copy of the run's checkpoints, such as `s3://bucket/path`: a directory for each run
            is made there. A run goes on from it where its own directory has nothing. None for none.
    """

    gather: bool = False
    mirror: Annotated[str, Meta(min_length=1)] | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.mirror is not None and self.mirror.endswith("://"):
            yield "mirror", f"expected a place such as s3://bucket/path, got {self.mirror}"
