"""DLPack's flag for read-only memory, which torch does not set."""

import ctypes
from typing import Any

_NAME = b"dltensor_versioned"
# DLManagedTensorVersioned of DLPack 1.0: version (two uint32), manager_ctx, deleter, flags (uint64), then the tensor.
_FLAGS_OFFSET = 8 + 2 * ctypes.sizeof(ctypes.c_void_p)
_READ_ONLY = 1

_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi),
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi),
)


def mark_read_only(capsule: Any) -> Any:
    """`capsule` with the flag; one of DLPack before 1.0, which has no flags, as it is."""
    if _is_valid(capsule, _NAME):
        ctypes.c_uint64.from_address(_pointer(capsule, _NAME) + _FLAGS_OFFSET).value |= _READ_ONLY
    return capsule
