"""The Rust on the pages runs: the crates that their programs write compute as Python, and take the lines shown."""

import re
import sys
from pathlib import Path

import pytest
import torch

from burnlike.config import ModuleConfig, registry
from burnlike.config.root_keys import Input
from burnlike.train.export.exporting import Dtype, export
from burnlike.train.export.source import source_of_config

from .running import HERE, cargo, name_crate

pytestmark = pytest.mark.burn
MODEL = """
type: Sequential
layers:
  - {type: Conv2d, channels: [1, 8], kernel_size: 3, padding: Same}
  - {type: BatchNorm, num_features: 8}
  - {type: Gelu}
  - {type: MaxPool2d, kernel_size: 2, strides: 2}
  - {type: Flatten}
  - {type: LayerNorm, d_model: 128}
  - {type: Linear, d_input: 128, d_output: 10}
"""
CHECKS_INPUT = """
fn checks_input(device: &Device) -> Tensor<4> {
    Tensor::ones([2, 1, 8, 8], device)
}
"""
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
    lines = re.search(r"```rust\n(let device.*?)```", text, re.DOTALL)
    assert lines is not None
    shown = "\n    ".join(lines[1].strip().splitlines())
    main = (crate / "src" / "main.rs").read_text().replace("    Ok(())\n}", f"    {shown}\n    Ok(())\n}}")
    (crate / "src" / "main.rs").write_text(main)
    name_crate(crate, "page")
    assert max(differences(crate)) < 1e-5


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_of_16_bits_compute_in_float32_or_in_16_bits(dtype: Dtype, tmp_path: Path) -> None:
    registry.load_built_in()
    torch.manual_seed(0)
    crate = tmp_path / "crate"
    source = source_of_config(ModuleConfig.from_yaml(MODEL, "model"), None)
    export(source, "burn", crate, dtype=dtype, inputs=[Input((2, 1, 8, 8))])
    name_crate(crate, dtype)
    main = crate / "src" / "main.rs"
    plain = main.read_text()
    assert max(differences(crate)) < 1e-5
    lines = re.findall(r"let mut device.*\n.*configure.*;", PAGE.read_text())
    assert len(lines) == 1
    lines[0] = lines[0].replace("F16", {"float16": "F16", "bfloat16": "BF16"}[dtype])
    shown = 'println!("dtype {:?}", model.forward(checks_input(&device)).dtype());'
    text = plain.replace("let device = Device::default();", lines[0]).replace(
        "    Ok(())\n}", f"    {shown}\n    Ok(())\n}}"
    )
    main.write_text(text + CHECKS_INPUT)
    printed = cargo("run", "--locked", folder=crate)
    assert {"float16": "dtype F16", "bfloat16": "dtype BF16"}[dtype] in printed
    coarse = max(found_in(printed))
    assert 1e-5 < coarse < {"float16": 5e-3, "bfloat16": 4e-2}[dtype]


def differences(crate: Path) -> list[float]:
    return found_in(cargo("run", "--locked", folder=crate))


def found_in(printed: str) -> list[float]:
    found = [float(it) for it in re.findall(r"largest difference (\S+)", printed)]
    assert len(found) == 3
    return found
