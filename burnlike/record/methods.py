"""RecordMethods: the methods for saving and loading. Imports nothing, because schedulers load no torch."""

from typing import TYPE_CHECKING, Any

from .._lazy import resolve

if TYPE_CHECKING:
    from os import PathLike

    from .precision import PrecisionRule
    from .recorder import Recorder


class RecordMethods:
    """The methods `save` and `load` of what has `into_record` and `load_record`."""

    __slots__ = ()

    def save(
        self, path: "str | PathLike[str]", recorder: "Recorder | None" = None, precision: "PrecisionRule | None" = None
    ) -> str:
        """Write the record to a file; see `burnlike.record.save`. Returns the path written."""
        return resolve("burnlike.record:save")(self, path, precision, recorder)

    def load(self, path: "str | PathLike[str]", **options: Any) -> Any:
        """Load a record of this kind as `load_record` does, with its options; see `burnlike.record.load`."""
        return resolve("burnlike.record:load")(self, path, **options)
