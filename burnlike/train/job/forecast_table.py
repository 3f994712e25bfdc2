"""The forecast of a training's meshes as text, and as plain values."""

from collections.abc import Sequence
from typing import Any

from ..._terminal import table
from ..view.formats import format_bytes
from .forecast_meshes import MeshForecast, Remedy

_HEADS = ("weights", "states", "gradients", "gathered", "activations", "at the peak", "exchanged")


def as_values(found: Sequence[MeshForecast], memory: int | None) -> list[dict[str, Any]]:
    """What `burnlike forecast --json` prints of each mesh."""
    values: list[dict[str, Any]] = []
    for it in found:
        if it.step is None:
            values.append({"mesh": it.mesh, "problem": it.problem})
            continue
        step = it.step._asdict() | {"sizes": it.step.sizes._asdict(), "peak": it.step.peak}
        step["communication"] = [each._asdict() for each in it.step.communication]
        fits = {} if memory is None else {"fits": it.step.peak <= memory}
        values.append({"mesh": it.mesh, **step, **fits})
    return values


def table_of(found: Sequence[MeshForecast], memory: int | None) -> list[str]:
    """A row for each mesh with the bytes of a process, then what a step exchanges on each."""
    rows: list[tuple[str, ...]] = [("mesh", *_HEADS, *(["fits"] if memory is not None else []))]
    lines: list[str] = []
    for it in found:
        if it.step is None:
            lines.append(f"{it.mesh}: {it.problem}")
            continue
        step = it.step
        sizes = (
            step.resident["weights"],
            step.resident["optimizer states"] + step.resident["average"],
            step.gradients,
            step.at_peak["gathered"],
            step.at_peak["activations"],
            step.peak,
            sum(each.bytes for each in step.communication),
        )
        fits = [] if memory is None else ["yes" if step.peak <= memory else "no"]
        rows.append((it.mesh, *map(format_bytes, sizes), *fits))
        lines += [f"{it.mesh}: a step exchanges" * bool(step.communication)]
        lines += [
            f"  {each.exchanges} x {each.kind} among {each.processes} ({each.among}), {format_bytes(each.bytes)}"
            for each in step.communication
        ]
        if step.host:
            lines.append(f"{it.mesh}: {format_bytes(step.host)} in the memory of the host")
    return [*(table(rows) if rows[1:] else []), *filter(None, lines)]


def remedy_values(found: Sequence[Remedy], memory: int) -> list[dict[str, Any]]:
    """What `burnlike forecast --json` prints of ways to take less memory."""
    return [{"set": [*it.overrides], "peak": it.step.peak, "fits": it.step.peak <= memory} for it in found]


def remedy_lines(mesh: str, found: Sequence[Remedy], memory: int) -> list[str]:
    """What to do where no mesh fits, for the one that takes least."""
    lines = [f"no mesh fits into {format_bytes(memory)}; {mesh} takes least"]
    for it in found:
        options = " ".join(f"--set {each}" for each in it.overrides)
        host = f", and {format_bytes(it.step.host)} of the host" if it.step.host else ""
        lines.append(f"  {format_bytes(it.step.peak)}{host} with {options}{', which fits' * (it.step.peak <= memory)}")
    if not (found and found[-1].step.peak <= memory):
        lines.append("  beside these: more processes, larger sizes of tensor, pipeline or context, a smaller model")
    return lines
