"""The programs of the guides run as they stand, each guide's one after the other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
GUIDES = ["modules", "mlax", "drop_in"]


@pytest.mark.parametrize("guide", GUIDES)
def test_the_programs_of_a_guide_run(guide: str, tmp_path: Path) -> None:
    programs = re.findall(r"```python\n(.*?)```", (DOCS / f"{guide}.md").read_text(), re.DOTALL)
    assert programs
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(programs)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
