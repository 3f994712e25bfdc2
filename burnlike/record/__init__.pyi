"""The public names of `burnlike.record`: each is imported from where it is defined, at its first use."""

from .burn.recorders import (
    BinBytesRecorder as BinBytesRecorder,
    BinFileRecorder as BinFileRecorder,
    BinGzFileRecorder as BinGzFileRecorder,
    BurnpackRecorder as BurnpackRecorder,
    JsonGzFileRecorder as JsonGzFileRecorder,
    NamedMpkBytesRecorder as NamedMpkBytesRecorder,
    NamedMpkFileRecorder as NamedMpkFileRecorder,
    NamedMpkGzFileRecorder as NamedMpkGzFileRecorder,
    PrettyJsonFileRecorder as PrettyJsonFileRecorder,
)
from .bytes.budget import ReadLimits as ReadLimits
from .distributed.recorder import DcpRecorder as DcpRecorder, DistributedRecorder as DistributedRecorder
from .files.stored_tensors import LazyTensors as LazyTensors
from .formats import EXTENSIONS as EXTENSIONS
from .loading.load_options import LoadOptions as LoadOptions, LoadReport as LoadReport, Mismatch as Mismatch
from .materialize import init_from as init_from
from .precision import (
    BFloat16Precision as BFloat16Precision,
    DoublePrecision as DoublePrecision,
    FullPrecision as FullPrecision,
    HalfPrecision as HalfPrecision,
    Precision as Precision,
)
from .record import Record as Record
from .recorder import FileRecorder as FileRecorder, Recorder as Recorder, recorder_for as recorder_for
from .safetensors.recorder import SafetensorsRecorder as SafetensorsRecorder
from .saving.background import SaveHandle as SaveHandle
from .shortcuts import (
    load as load,
    open_record as open_record,
    save as save,
    save_async as save_async,
    verify as verify,
)
from .state_dict.module_layout import layout_of as layout_of
