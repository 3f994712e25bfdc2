"""Part `load`: the library loads, `burnlike doctor` finds no problem, and each op runs once, both passes."""

import torch

from burnlike.cli.commands import doctor
from burnlike.ops import native_status

from .op_calls import differences, first_cases, op_of
from .results import NOT_RUN, Part


def run(part: Part, without_device: bool = False) -> None:
    """Run it; without a device the library is loaded alone."""
    part.step("load", lambda: _load(part, without_device))
    if without_device:
        if not part.result.failures:
            part.result.status, part.result.reason = NOT_RUN, "no device"
        return
    for case in first_cases(part.device):
        part.step(op_of(case), lambda case=case: [part.result.fail(it) for it in differences(case, part.device)])
    part.step("doctor", lambda: _doctor(part))


def _load(part: Part, without_device: bool) -> None:
    status = native_status()
    library = status.cpu if part.is_rehearsal else status.cuda
    part.result.notes.append(f"library: {library.path.name} of {status.version}")
    if not library.loaded:
        part.result.fail(f"{library.path.name} is not loaded: {library.reason}")
    if part.is_rehearsal or not library.loaded:
        return
    part.result.notes.append(f"built for {torch.ops.burnlike.cuda_archs()}")
    if without_device:
        return
    properties = torch.cuda.get_device_properties(0)
    part.result.notes.append(
        f"{properties.name}: {properties.multi_processor_count} multiprocessors, "
        f"{properties.total_memory / 2**30:.0f} GiB"
    )


def _doctor(part: Part) -> None:
    for problem in doctor.examine()["problems"]:
        part.result.fail(f"doctor: {problem}")
