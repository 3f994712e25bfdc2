"""`burnlike report`: one page about runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from burnlike.cli.main import main
from burnlike.train.runs.run_files import read_run
from burnlike.train.view.report.page import peak_tflops_of

from ..train.runs.test_run_files import make_run
from ..train.samples import write_config


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        make_run(tmp_path / "runs" / name)
    return tmp_path


def test_it_writes_one_page(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "runs/a"]) == 0
    assert capsys.readouterr().out == "the report is in report.html\n"
    assert "<title>a</title>" in (runs / "report.html").read_text()


def test_names_in_runs_will_do_and_each_run_counts_once(runs: Path) -> None:
    assert main(["report", "a", "runs/b", "runs/a", "--out", "both.html"]) == 0
    assert "<title>2 runs</title>" in (runs / "both.html").read_text()
    make_run(runs / "a")
    assert main(["report", "a", "--out", "a.html"]) == 0
    assert "<title>a</title>" in (runs / "a.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "there is no run at missing; `burnlike runs` lists those in runs/"),
        (["runs"], "runs is not the directory of a run: it has no run.lock and no metrics.jsonl"),
        (["a", "--out", "no/where.html"], "no/where.html: can't be written: No such file or directory"),
        (["a", "--out", "runs"], "--out runs: expected the name of a file, got a directory"),
    ],
)
def test_wrong_input_is_one_error(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["report", *arguments]) == 2
    assert capsys.readouterr().err == f"burnlike: error: {message}\n"


def test_it_does_not_load_torch(runs: Path) -> None:
    program = "import sys; from burnlike.cli.main import main; main(['report', 'a']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=runs)


@pytest.fixture
def with_ranks(runs: Path) -> Path:
    """A run of two processes, with a small decoder, and steps of a second."""
    run = runs / "runs" / "a"
    text = write_config(runs).read_text()
    (run / "config.yaml").write_text(f"{text}\ndistributed: {{strategy: ddp}}\n")
    looks = [
        {"step": 4, "tokens_per_s": [10, 30], "waiting": [0.5, 0.0], "host": ["one", "two<"], "seconds_per_step": 0.5},
        {
            "step": 8,
            "tokens_per_s": [30, 10],
            "waiting": [0.25, 0.125],
            "host": ["one", "two<"],
            "seconds_per_step": 1.5,
        },
    ]
    lines = [json.dumps(it) for it in looks]
    (run / "ranks.jsonl").write_text("\n".join(["{damaged", '{"items_per_s": ["x"]}', *lines]))
    return run


ROW = r"<tr><td>(\d)</td>" + "<td>([^<]*)</td>" * 5 + "</tr>"


TOKENS, D_MODEL = 4 * 16, 16
FLOPS = 6 * TOKENS * (256 * D_MODEL + 4 * D_MODEL**2 + 3 * D_MODEL * 24) + 12 * TOKENS * 16 * D_MODEL
"""6 N + 12 L H Q T for each token, as in appendix B of the PaLM paper."""


@pytest.mark.slow
def test_processes_have_their_rates_waits_and_share_of_the_peak(with_ranks: Path) -> None:
    assert main(["report", "a", "--peak-tflops", str(10 * FLOPS / 1e12)]) == 0
    page = Path("report.html").read_text()
    assert re.findall(ROW, page) == [
        ("0", "one", "20", "37.5%", f"{FLOPS / 1e12:.3g}", "10.0%"),
        ("1", "two&lt;", "20", "6.2%", f"{FLOPS / 1e12:.3g}", "10.0%"),
    ]
    config = with_ranks / "config.yaml"
    config.write_text(config.read_text().replace("strategy: ddp", "strategy: fsdp2, tensor: 2"))
    assert main(["report", "a"]) == 0
    page = Path("report.html").read_text()
    assert f"<td>{FLOPS / 2 / 1e12:.3g}</td>" in page  # they share the items
    assert "MFU" not in page
    config.write_text("type: OfMyOwn")
    assert main(["report", "a"]) == 0
    assert "FLOPs are not known" in Path("report.html").read_text()


@pytest.mark.parametrize(
    ("device", "training", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", {"training.precision": "bfloat16"}, 989.0),
        ("NVIDIA H100 80GB HBM3", {"distributed.precision.params": "bfloat16"}, 989.0),
        ("NVIDIA H100 80GB HBM3", {}, None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", {"training.precision": "bfloat16"}, None),
        ("NVIDIA H100 NVL", {"training.precision": "bfloat16"}, 835.0),
        ("NVIDIA L40", {"training.precision": "bfloat16"}, 181.0),
        ("NVIDIA A100-SXM4-80GB", {"training.precision": "float16"}, 312.0),
        ("NVIDIA L400", {"training.precision": "bfloat16"}, None),
    ],
)
def test_peaks_are_those_of_known_devices_in_16_bits(
    runs: Path, device: str, training: dict[str, str], peak: float | None
) -> None:
    run = read_run(runs / "runs" / "a")
    assert peak_tflops_of(run._replace(config=training, environment={"devices": [device]})) == peak
