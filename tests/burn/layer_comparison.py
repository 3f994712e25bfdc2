"""A layer or loss of burnlike beside Burn's: outputs in evaluation and training, gradients, records, display."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from burnlike import module as bl_module, record
from burnlike.errors import BurnlikeError

from .layer_case import LayerCase
from .running import ask, packed, unpacked

ENUMS = ("Activation", "Normalization")
"""Layers of Burn's that are one of several, which are the layers themselves here."""


@dataclass(frozen=True)
class Flaw:
    """Where Burn 0.22.1 gives another number than burnlike by its own fault: the cases, and how they differ."""

    applies: Callable[[LayerCase], bool]
    pattern: str
    shown: LayerCase
    """A case that shows it: a flaw that Burn has no more is to be taken out."""


def difference(found: Tensor, expected: Tensor, scale: float = 0.0, tolerance: float = 2e-5) -> str | None:
    """How two results differ, measured by the largest number of them or by `scale`; None if they agree."""
    if found.shape != expected.shape and {found.shape, expected.shape} != {torch.Size([]), torch.Size([1])}:
        return f"shapes {[*found.shape]} and {[*expected.shape]}"
    if not found.numel():
        return None
    found, expected = found.flatten(), expected.flatten()
    finite, infinite = expected.isfinite(), expected.isinf()
    is_nan = torch.equal(found.isnan(), expected.isnan())
    if not is_nan or not torch.equal(found.isinf(), infinite) or not torch.equal(found[infinite], expected[infinite]):
        return f"{found.tolist()} and {expected.tolist()}"
    if not finite.any():
        return None
    wide = [it[finite].double() for it in (found, expected)]
    scale = max(wide[1].abs().max().item(), scale, 0.05)
    worst = (wide[0] - wide[1]).abs().max().item()
    return None if worst <= tolerance * scale else f"off by {worst:.3g} of {scale:.3g}"


class Ours:
    """What burnlike computes for a case, and the files that Burn gets."""

    def __init__(self, case: LayerCase, folder: Path, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.case, self.saved = case, folder / "saved.bpk"
        self.module = case.module()
        for name, tensor in self.module.state_dict().items():
            if tensor.is_floating_point():
                drawn = torch.randn(tensor.shape, generator=generator) * 0.3
                tensor.add_(drawn.abs() if "var" in name else drawn)
        self.display = bl_module.display(self.module)
        self.has_record = bool(self.module.state_dict())
        folder.mkdir(parents=True)
        self.before, self.after = folder / "before.bpk", folder / "after.bpk"
        if self.has_record:
            record.save(self.module, self.before)
        inputs = {
            name: it.clone().requires_grad_() if it.is_floating_point() else it for name, it in case.inputs.items()
        }
        training = case.outputs(self.module.train(), inputs)
        self.weights = [torch.randn(it.shape, generator=generator) for it in training]
        total = torch.stack([(it * w).sum() for it, w in zip(training, self.weights, strict=True)]).sum()
        if total.requires_grad:
            total.backward()
        self.training = [it.detach() for it in training]
        self.inputs = {name: it.grad for name, it in inputs.items() if it.grad is not None}
        self.parameters = {name: it.grad for name, it in self.module.named_parameters() if it.grad is not None}
        if self.has_record:
            record.save(self.module, self.after)
        with torch.no_grad():
            self.evaluation = case.outputs(self.module.eval(), case.inputs)

    def asked(self) -> Mapping[str, Any]:
        """The case for Burn."""
        files = {"before": self.before, "after": self.after, "saved": self.saved}
        return {
            **asked(self.case),
            # A number alone has a dimension in Burn.
            "weights": [packed(it if it.ndim else it[None]) for it in self.weights],
            **{name: str(path) for name, path in files.items() if self.has_record},
        }

    def faults(self, answer: Mapping[str, Any]) -> list[str]:
        """How Burn's answer differs."""
        if "refused" in answer:
            return [f"refused: {answer['refused']}"]
        faults = list[str]()
        if answer["display"] != self.display and self.case.layer not in ENUMS:
            faults.append(f"display:\n{self.display}\n{answer['display']}")
        for name, ours in (("evaluation", self.evaluation), ("training", self.training)):
            if name not in answer:
                continue
            theirs = [unpacked(it) for it in answer[name]]
            if len(theirs) != len(ours):
                faults.append(f"{name}: {len(ours)} outputs and {len(theirs)}")
                continue
            faults += [
                f"{name} {index}: {it}"
                for index, pair in enumerate(zip(ours, theirs, strict=True))
                if (it := difference(*pair))
            ]
        if "training" not in answer:
            return faults
        of_all = (*self.inputs.values(), *self.parameters.values())
        # 0.1, as what cancels out to 0 leaves errors of the size of its parts.
        scale = max([0.1, *(it.nan_to_num(0, 0, 0).abs().max().item() for it in of_all if it.numel())])
        for name, ours in (("inputs", self.inputs), ("parameters", self.parameters)):
            theirs = {path: unpacked(it) for path, it in answer[name].items()}
            if ours.keys() != theirs.keys():
                faults.append(f"gradients of {name}: {sorted(ours)} and {sorted(theirs)}")
            faults += [
                f"gradient of {path}: {it}"
                for path in sorted(ours.keys() & theirs.keys())
                if (it := difference(ours[path], theirs[path], scale, 1e-4))
            ]
        if self.has_record:
            faults += self._of_record()
        return faults

    def _of_record(self) -> list[str]:
        fresh = self.case.module()
        record.load(fresh, self.saved)
        ours, theirs = self.module.state_dict(), fresh.state_dict()
        return [f"record {name}: {it}" for name in ours if (it := difference(ours[name], theirs[name]))]


def asked(case: LayerCase) -> Mapping[str, Any]:
    """A case for Burn without files, and without weights of a backward pass."""
    inputs = {name: packed(it) for name, it in case.inputs.items()}
    return {"layer": case.layer, "config": case.config, "inputs": inputs, **case.options}


def compared(program: str, cases: Sequence[LayerCase], folder: Path) -> list[tuple[LayerCase, list[str]]]:
    """Each case with how Burn's answer differs; what both refuse does not."""
    ours: list[Ours | BurnlikeError] = []
    for index, case in enumerate(cases):
        try:
            ours.append(Ours(case, folder / str(index), index))
        except BurnlikeError as error:
            ours.append(error)
    questions = [
        it.asked() if isinstance(it, Ours) else {**asked(case), "training": False}
        for case, it in zip(cases, ours, strict=True)
    ]
    results = list[tuple[LayerCase, list[str]]]()
    for case, it, answer in zip(cases, ours, ask(program, questions), strict=True):
        if isinstance(it, Ours):
            results.append((case, it.faults(answer)))
        else:
            results.append((case, [] if "refused" in answer else [f"burnlike refuses: {it}"]))
    return results


def still_there(program: str, flaws: Mapping[str, Flaw], folder: Path) -> list[str]:
    """The names of the flaws that no fault of their case shows."""
    results = compared(program, [it.shown for it in flaws.values()], folder)
    return [
        name
        for (name, flaw), (case, faults) in zip(flaws.items(), results, strict=True)
        if not flaw.applies(case) or not any(re.match(flaw.pattern, it, re.DOTALL) for it in faults)
    ]


def without(flaws: Iterable[Flaw], results: Sequence[tuple[LayerCase, list[str]]]) -> list[str]:
    """How answers differ beside the known flaws."""
    different = list[str]()
    for case, faults in results:
        patterns = [flaw.pattern for flaw in flaws if flaw.applies(case)]
        rest = [it for it in faults if not any(re.match(pattern, it, re.DOTALL) for pattern in patterns)]
        different += [f"{case}\n    {it}" for it in rest]
    return different
