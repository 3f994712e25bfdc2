"""Layers beside Burn's: outputs in evaluation and in training, all gradients, records both ways, display."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike import module as bl_module, record
from burnlike.errors import BurnlikeError

from .layers import DRAWS, LayerCase
from .running import ask, packed, random_of, unpacked

pytestmark = pytest.mark.burn

DRAWN = 8
"""Cases of each layer."""


ENUMS = ("Activation", "Normalization")
"""Layers of Burn's that are one of several, which are the layers themselves here."""


def difference(found: Tensor, expected: Tensor, scale: float = 0.0, tolerance: float = 2e-5) -> str | None:
    """How two results differ, measured by the largest number of them or by `scale`; None if they agree."""
    if found.shape != expected.shape:
        return f"shapes {[*found.shape]} and {[*expected.shape]}"
    if not found.numel():
        return None
    if not torch.equal(found.isfinite(), expected.isfinite()):
        return f"{found} and {expected}"
    wide = [it.double().nan_to_num() for it in (found, expected)]
    scale = max(wide[1].abs().max().item(), scale, 1e-3)
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
        folder.mkdir()
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
            "layer": self.case.layer,
            "config": self.case.config,
            "inputs": {name: packed(it) for name, it in self.case.inputs.items()},
            "weights": [packed(it) for it in self.weights],
            **{name: str(path) for name, path in files.items() if self.has_record},
            **self.case.options,
        }

    def faults(self, answer: Mapping[str, Any]) -> list[str]:
        """What Burn gives otherwise."""
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
        scale = max([it.abs().max().item() for it in (*self.inputs.values(), *self.parameters.values())], default=0.0)
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


def compared(cases: list[LayerCase], folder: Path) -> list[tuple[LayerCase, list[str]]]:
    """Each case with what Burn gives otherwise."""
    ours: list[Ours | BurnlikeError] = []
    for index, case in enumerate(cases):
        try:
            ours.append(Ours(case, folder / str(index), index))
        except BurnlikeError as error:
            ours.append(error)
    asked = [it.asked() if isinstance(it, Ours) else refused(case) for case, it in zip(cases, ours, strict=True)]
    results: list[tuple[LayerCase, list[str]]] = []
    for case, it, answer in zip(cases, ours, ask("layers", asked), strict=True):
        if isinstance(it, Ours):
            results.append((case, it.faults(answer)))
        else:
            results.append((case, [] if "refused" in answer else [f"burnlike refuses: {it}"]))
    return results


def refused(case: LayerCase) -> Mapping[str, Any]:
    """The case for Burn, which is to refuse it as well."""
    inputs = {name: packed(it) for name, it in case.inputs.items()}
    return {"layer": case.layer, "config": case.config, "inputs": inputs, "training": False, **case.options}


def is_conv1d_with_a_rest(case: LayerCase) -> bool:
    """True if the last window does not end where the padded input ends, or the kernel has one place: of groups."""
    if case.layer != "Conv1d" or case.config["groups"] == 1:
        return False
    return case.config["stride"] > 1


FLAWS: dict[str, tuple[Callable[[LayerCase], bool], str]] = {
    "The gradient of Conv1d's weight is wrong for groups and a stride that leaves a rest": (
        is_conv1d_with_a_rest,
        "gradient of weight",
    ),
    "The flex backend has no NearestExact": (
        lambda case: "Interpolate" in case.layer and case.config["mode"] == "NearestExact",
        "refused: .*unsupported mode NearestExact",
    ),
    "The flex backend has no backward pass of Lanczos": (
        lambda case: "Interpolate" in case.layer and case.config["mode"] == "Lanczos",
        "refused: .*interpolate_backward: unsupported mode Lanczos",
    ),
}
"""What Burn 0.22.1 gets wrong: the cases, and the pattern of the fault. Nothing else of these cases may differ."""


def test_layers(tmp_path: Path) -> None:
    cases = [draw(random) for name, draw in DRAWS.items() for random in [random_of(name)] for _ in range(DRAWN)]
    different = list[str]()
    for case, faults in compared(cases, tmp_path):
        patterns = [pattern for applies, pattern in FLAWS.values() if applies(case)]
        rest = [it for it in faults if not any(re.match(pattern, it, re.DOTALL) for pattern in patterns)]
        different += [f"{case}\n    {it}" for it in rest]
    assert not different, f"{len(different)} of {len(cases)} cases:\n" + "\n".join(different)
