"""The programs of the guides run as they stand, each guide's one after the other."""

import re
import textwrap
from pathlib import Path

import pytest

from burnlike.config import Config, LrSchedulerConfig, ModuleConfig, OptimizerConfig
from burnlike.train import TrainingConfig

from .fork_server import ForkServer
from .torch_versions import copies_in_compiled_code

DOCS = Path(__file__).parent.parent / "docs"

GUIDES = [
    "training",
    "after_training",
    "metrics",
    "modules",
    "nn",
    "models",
    "mlax",
    "drop_in",
    "kernels",
    "optimizers",
    "tensor",
    "backends",
    "formats",
    "records",
    "burn",
    "config",
    "data",
    "streaming",
    "guide/classification",
    "fine_tuning",
    "guide/lora",
    "guide/custom_loop",
    "guide/gan",
]
_MODEL = """
import torch
import burnlike as bl

class Part(bl.Module):
    weight: torch.nn.Parameter

    def __init__(self, device=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2, device=device))

class Stack(bl.Module):
    layers: list[Part]

    def __init__(self, device=None):
        super().__init__()
        self.layers = [Part(device), Part(device)]

class StackConfig(bl.Config):
    def init(self, device=None):
        return Stack(device)

model, config, device = Stack(), StackConfig(), "cpu"
"""
GIVEN = {
    "formats": _MODEL
    + """
for name in ("model.bin", "from_burn.bpk"):
    bl.record.save(model, name)
""",
    "records": _MODEL
    + """
from dataclasses import dataclass
import numpy
from burnlike.optim import AdamWConfig
linear, head, states = torch.nn.Linear(2, 3), torch.nn.Linear(2, 2), torch.zeros(3)
numpy_array = numpy.zeros((3, 2), dtype=numpy.float32)
optimizer = AdamWConfig().init()
optimizer.save("optimizer")
scheduler, scaler, loader, counters = {"iteration": 1}, torch.amp.GradScaler("cpu"), {"epoch": 0}, {"tokens": 7}
""",
}
"""What the programs of some guides have beside what they say."""


ALLOWED: dict[str, type[Warning]] = {
    "Guards may run slower on Python 3.13.0": RuntimeWarning,  # of torch.compile
    "The given buffer is not writable": UserWarning,  # of torch.export.load, torch 2.11
}


@pytest.mark.parametrize(
    "guide",
    [
        pytest.param(guide, marks=[copies_in_compiled_code, pytest.mark.slow]) if guide == "mlax" else guide
        for guide in GUIDES
    ],
)
def test_the_programs_of_a_guide_run(guide: str, tmp_path: Path, fork_server: ForkServer) -> None:
    text = (DOCS / f"{guide}.md").read_text()
    for file, name in re.findall(r"^```yaml\n(# (\S+\.yaml)\n.*?)^```", text, re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(file)
    found = re.findall(r"^ *```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    assert found
    programs = [GIVEN.get(guide, ""), *map(textwrap.dedent, found)]
    status, output = fork_server.run_program("\n".join(programs), tmp_path, ALLOWED)
    assert status == 0, output


def test_the_models_of_the_guide_to_models_can_be_built() -> None:
    texts = re.findall(r"```yaml\n(type: .*?)```", (DOCS / "models.md").read_text(), re.DOTALL)
    assert len(texts) >= 2
    for text in texts:
        ModuleConfig.from_yaml(text).init("meta")


def test_the_yaml_of_the_guide_to_optimizers_is_right() -> None:
    class Part(Config):
        optimizer: OptimizerConfig
        lr_scheduler: LrSchedulerConfig
        training: TrainingConfig

    (text,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "optimizers.md").read_text(), re.DOTALL)
    part = Part.from_yaml(text)
    assert len(part.optimizer.init().rules.groups) == 3
    assert part.lr_scheduler.init(num_iters=1000).step().base == pytest.approx(1e-5)
    assert part.training.accumulation_steps == 4
