"""SafetensorsRecorder: records as plain safetensors files, converted while they are written."""

from .formats import Format
from .recorder import FileRecorder
from .safetensors_format import SAFETENSORS


class SafetensorsRecorder(FileRecorder):
    """Writes and reads records as safetensors files, which every safetensors reader opens.

    Ids, aliases of tied tensors and plain values are JSON in the file's metadata. Files of other programs load too.

    Args:
        precision: types to store in; None stores each tensor as it is.

    Example:
        >>> import tempfile, torch
        >>> from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder
        >>> record = Record(tensors={"weight": torch.ones(2, 3)}, values={"step": 7})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = SafetensorsRecorder(BFloat16Precision).save(record, f"{folder}/model")
        ...     loaded = SafetensorsRecorder().load(f"{folder}/model.safetensors")
        >>> loaded.tensors["weight"].dtype, loaded.values
        (torch.bfloat16, {'step': 7})
    """

    format: Format = SAFETENSORS
