"""The Rust on the pages runs: the crates that their programs write compute as Python, and take the lines shown."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from .running import HERE, cargo

pytestmark = pytest.mark.burn
PAGE = HERE.parents[1] / "docs" / "how_to" / "pytorch_to_rust.md"


def test_the_page_from_pytorch_to_rust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text()
    module, program = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2]
    (tmp_path / "net.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "net", raising=False)
    exec(compile(program, "program.py", "exec"), {})
    crate = tmp_path / "net"
    lines = re.search(r"```rust\n(.*?)```", text, re.DOTALL)
    assert lines is not None
    shown = "\n    ".join(lines[1].strip().splitlines())
    main = (crate / "src" / "main.rs").read_text().replace("    Ok(())\n}", f"    {shown}\n    Ok(())\n}}")
    (crate / "src" / "main.rs").write_text(main)
    for name in ("Cargo.toml", "Cargo.lock"):  # those of the tests, whose Burn is built already
        shutil.copy(HERE / name, crate / name)
    printed = cargo("run", "--locked", folder=crate)
    differences = [float(it) for it in re.findall(r"largest difference (\S+)", printed)]
    assert len(differences) == 3
    assert max(differences) < 1e-5
