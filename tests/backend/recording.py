"""Whether everything that burnlike calculates goes through a backend's functions."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import burnlike
import burnlike.ops  # loads the native library, before anything is recorded
from burnlike.backend.autodiff import Autodiff
from burnlike.backend.torch_backend import Cpu
from examples.recording_backend import Recording

PACKAGE = str(Path(burnlike.__file__).parent)
# A torch tensor that requires grad may be an operand on a backend that does not track: detach takes its values, and
# nothing is calculated.
AT_THE_BORDER = {torch.ops.aten.detach.default, torch.ops.aten.alias.default}


def _code_of_recorded() -> CodeType:
    function: Any = Recording(Cpu()).float_ops.add
    return function.__code__


RECORDED = _code_of_recorded()  # of the one closure that all functions in a Recording's tables are
PASSES = {member.__code__ for member in vars(Autodiff).values() if hasattr(member, "__code__")}


class _OnlyRecordedOps(TorchDispatchMode):
    """Notes the aten ops that burnlike calls otherwise than through the tables, or through a pass of Autodiff."""

    def __init__(self, backend: Recording) -> None:
        super().__init__()
        self.backend = backend
        self.outside: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        caller = None if func in AT_THE_BORDER else self._caller(sys._getframe(1))
        if caller is not None:
            self.outside.append(
                f"{func} in {caller.f_code.co_qualname} ({caller.f_code.co_filename}:{caller.f_lineno})"
            )
        return func(*args, **(kwargs or {}))

    def _caller(self, frame: FrameType | None) -> FrameType | None:
        """The innermost frame of burnlike, or None if a table's function or a pass calls, or the test itself."""
        caller = None
        while frame is not None:
            code = frame.f_code
            if code in PASSES or (code is RECORDED and frame.f_locals["self"] is self.backend):
                return None
            if caller is None and code.co_filename.startswith(PACKAGE):
                caller = frame
            frame = frame.f_back
        return caller


@contextmanager
def only_recorded_ops(backend: Recording) -> Iterator[None]:
    """Fail if burnlike reaches torch in any other way than by the functions of `backend`.

    Reading shapes, dtypes and the like calls no op; what the test itself calculates is not looked at.
    """
    mode = _OnlyRecordedOps(backend)
    with mode:
        yield
    assert not mode.outside, "torch was called outside of the backend's functions:\n" + "\n".join(mode.outside)
