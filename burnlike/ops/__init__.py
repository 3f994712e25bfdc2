"""Native operations: one file each, with its function, its fake, its derivative and its plain-torch reference.

Importing this package loads the native libraries; where one is missing, one warning says so and the references
are used.
"""

from .adamw_step import adamw_step_, adamw_step_reference
from .convert import convert_, convert_reference
from .read_values import can_read_values, read_values_, read_values_reference
from .rms_norm import rms_norm, rms_norm_reference
from .status import LibraryStatus, NativeStatus, force_cpu_isa, native_status

__all__ = [
    "LibraryStatus",
    "NativeStatus",
    "adamw_step_",
    "adamw_step_reference",
    "can_read_values",
    "convert_",
    "convert_reference",
    "force_cpu_isa",
    "native_status",
    "read_values_",
    "read_values_reference",
    "rms_norm",
    "rms_norm_reference",
]
