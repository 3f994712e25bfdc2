"""Metrics in YAML: read, checked and described without torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from burnlike.config import Config, MetricConfig
from burnlike.errors import ConfigError
from burnlike.train import metrics as m
from tests.processes import HANGS_S

from .samples import CASES, SYSTEM


class Part(Config):
    metrics: list[MetricConfig]


YAML = """metrics:
- {type: Accuracy, pad_token: 0}
- {type: Precision, top_k: 2, class_reduction: Micro, name: precision of two}
- type: MsSsim
  betas: [0.5, 0.5]
"""


def test_a_list_of_metrics() -> None:
    built = [config.init() for config in Part.from_yaml(YAML).metrics]
    assert [type(it) for it in built] == [m.Accuracy, m.Precision, m.MsSsim]
    assert [it.name for it in built] == ["Accuracy", "precision of two", "MS-SSIM (pr=1, k=11, \u03c3=1.5)"]


@pytest.mark.parametrize("config", [*(case.config for case in CASES.values()), *(it() for it in SYSTEM)], ids=str)
def test_what_a_config_writes_it_reads(config: MetricConfig) -> None:
    assert type(config).from_yaml(config.to_yaml()) == config


def test_mistakes_are_named_with_their_place() -> None:
    with pytest.raises(ConfigError) as error:
        Part.from_yaml("metrics:\n- {type: Acuracy}\n- {type: Precision, top_k: 0}\n- {type: Bleu, n: 4}\n")
    first, second, third = str(error.value).splitlines()
    assert ":2:10: metrics.0.type: " in first
    assert "Accuracy" in first
    assert ":3:28: metrics.1.top_k: expected an int >= 1 or null, got 0" in second
    assert ":4:16: metrics.2.n: unknown key" in third


def test_check_and_schema_load_no_torch(tmp_path: Path) -> None:
    (tmp_path / "precision.yaml").write_text("type: Precision\nthreshold: 0.4\ntop_k: 2\n")
    code = """if True:
        import sys
        from burnlike.cli.main import main
        status = [main(["check", "precision.yaml"]), main(["schema", "MsSsimConfig"])]
        sys.exit(f"{status} {'torch' in sys.modules} {'torchmetrics' in sys.modules}")
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANGS_S
    )
    assert "expected either threshold or top_k, got both" in done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == "[2, 0] False False"
    schema = json.loads(done.stdout[done.stdout.index("{") :])
    assert schema["definitions"]["MsSsimConfig"]["properties"]["betas"]["description"].startswith("the exponent")


def test_without_torchmetrics_a_config_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.startswith("burnlike.train.metrics."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(ConfigError, match=r"Auroc needs the package torchmetrics: pip install 'burnlike\[train\]'"):
        m.AurocConfig().init()
