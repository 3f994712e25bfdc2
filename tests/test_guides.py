"""The programs of the guides run as they stand, each guide's one after the other."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from burnlike.config import Config, LrSchedulerConfig, OptimizerConfig
from burnlike.train import TrainingConfig

DOCS = Path(__file__).parent.parent / "docs"
GUIDES = ["modules", "mlax", "drop_in", "optimizers", "tensor", "backends"]


@pytest.mark.parametrize("guide", GUIDES)
def test_the_programs_of_a_guide_run(guide: str, tmp_path: Path) -> None:
    found = re.findall(r"^ *```python\n(.*?)^ *```", (DOCS / f"{guide}.md").read_text(), re.DOTALL | re.MULTILINE)
    programs = [textwrap.dedent(program) for program in found]
    assert programs
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(programs)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(DOCS.parent)},  # for the examples, which guides refer to
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


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
