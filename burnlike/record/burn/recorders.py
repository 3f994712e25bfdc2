"""The recorders of Burn 0.21 and 0.22, under Burn's names."""

from ..formats import Format
from ..recorder import FileRecorder
from .bincode import BIN, BIN_BYTES, BIN_GZ
from .burnpack import BURNPACK
from .envelope import NAMED_MPK, NAMED_MPK_BYTES, NAMED_MPK_GZ
from .json_text import JSON_GZ, PRETTY_JSON


class NamedMpkFileRecorder(FileRecorder):
    """MessagePack with names, `.mpk`."""

    format: Format = NAMED_MPK


class NamedMpkGzFileRecorder(FileRecorder):
    """Gzipped MessagePack with names, `.mpk.gz`."""

    format: Format = NAMED_MPK_GZ


class NamedMpkBytesRecorder(FileRecorder):
    """MessagePack with names, in memory: `to_bytes` and `from_bytes`."""

    format: Format = NAMED_MPK_BYTES


class PrettyJsonFileRecorder(FileRecorder):
    """JSON with names, a value a line, `.json`: for reading by people; about 15 times the size of other formats."""

    format: Format = PRETTY_JSON


class JsonGzFileRecorder(FileRecorder):
    """Gzipped JSON with names, `.json.gz`."""

    format: Format = JSON_GZ


class BinFileRecorder(FileRecorder):
    """Bincode, `.bin`: without names, so that a record needs a layout; that of a module has one."""

    format: Format = BIN


class BinGzFileRecorder(FileRecorder):
    """Gzipped bincode, `.bin.gz`."""

    format: Format = BIN_GZ


class BinBytesRecorder(FileRecorder):
    """Bincode in memory: `to_bytes` and `from_bytes`."""

    format: Format = BIN_BYTES


class BurnpackRecorder(FileRecorder):
    """Burnpack, `.bpk`: the files of Burn 0.22, of modules, optimizers and schedulers alike."""

    format: Format = BURNPACK
