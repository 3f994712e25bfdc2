import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from burnlike.cli.main import main

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "configs").glob("**/*.yaml"))


@pytest.fixture
def linear(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text("type: Linear\nd_input: 3\nd_output: 4\n")
    Path("bad.yaml").write_text("d_input: 0\nd_ouput: 3\nd_output: 4\nbias: yes\n")


def check(capsys, *arguments):
    status = main(["check", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_shipped_configs_are_right_and_torch_is_not_loaded():
    assert SHIPPED
    code = (
        "import sys\nfrom burnlike.cli.main import main\nstatus = main(['check', '--fast', *sys.argv[1:]])\n"
        "assert status == 0, status\nassert 'torch' not in sys.modules\nassert 'numpy' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, SHIPPED)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for line, path in zip(done.stdout.splitlines(), SHIPPED, strict=True):
        kind = "TrainConfig, " if "training:" in path.read_text() else ""
        assert line.startswith(f"{path}: ok ({kind}")


def test_five_different_mistakes_of_a_training_config_are_five_lines(tmp_path, capsys):
    path = tmp_path / "wrong.yaml"
    path.write_text(
        """seed: 1
data: {type: Text, context_length: 128}
model:
  type: DecoderLn
optimizer: {type: AdamW, beta_1: 2}
lr_scheduler:
  type: CosineAnnealing
  initial_lr: fast
  num_iters: 10
training:
  epoch: 1
  batch_size: 8
seed: 2
"""
    )
    status, out, err = check(capsys, str(path))
    assert status == 2
    assert err == ""
    lines = out.splitlines()
    assert [line.removeprefix(f"{path}:").split(": ")[0:2] for line in lines[:5]] == [
        ["4:9", "model.type"],
        ["5:34", "optimizer.beta_1"],
        ["8:15", "lr_scheduler.initial_lr"],
        ["11:3", "training.epoch"],
        ["13:1", "seed"],
    ]
    assert "; did you mean 'DecoderLm'?" in lines[0]
    assert lines[1].endswith("expected a number >= 0 and < 1, got 2")
    assert lines[3].endswith("unknown key 'epoch'; did you mean 'epochs'?")
    assert lines[4].endswith("duplicate key 'seed'; it stands first in line 1: remove one")
    assert lines[5:] == ["5 mistakes in 1 file of 1"]


@pytest.mark.usefixtures("linear")
def test_a_right_file_is_one_line(capsys):
    assert check(capsys, "good.yaml", "--root", "Linear") == (
        0,
        "good.yaml: ok (Linear, initializer KaimingUniform)\n",
        "",
    )


@pytest.mark.usefixtures("linear")
def test_a_file_with_a_type_is_one_of_a_module(capsys):
    assert check(capsys, "good.yaml") == (0, "good.yaml: ok (Linear, initializer KaimingUniform)\n", "")


@pytest.mark.usefixtures("linear")
def test_every_file_is_checked_and_mistakes_are_counted(capsys):
    status, out, _ = check(capsys, "--root", "Linear", "bad.yaml", "good.yaml", "none.yaml")
    assert status == 2
    assert out == (
        "bad.yaml:1:10: d_input: expected an int >= 1, got 0\n"
        "bad.yaml:2:1: d_ouput: unknown key 'd_ouput'; LinearConfig has d_input, d_output, bias, initializer, layout\n"
        "bad.yaml:4:7: bias: expected true or false, got 'yes' (a string); write true\n"
        "good.yaml: ok (Linear, initializer KaimingUniform)\n"
        "none.yaml: no such file; check the path\n"
        "4 mistakes in 2 files of 3\n"
    )


@pytest.mark.usefixtures("linear")
def test_options_are_checked_with_the_file(capsys):
    status, out, _ = check(capsys, "good.yaml", "--root", "Linear", "--set", "d_input=5", "--set", "bais=false")
    assert status == 2
    assert out == ("--set bais=false: bais: unknown key 'bais'; did you mean 'bias'?\n1 mistake in 1 file of 1\n")
    assert check(capsys, "good.yaml", "--root", "Linear", "--set", "initializer.type=Zeros")[0:2] == (
        0,
        "good.yaml: ok (Linear, initializer Zeros)\n",
    )


@pytest.mark.usefixtures("linear")
def test_json_has_each_mistake_by_its_parts(capsys):
    status, out, _ = check(capsys, "good.yaml", "bad.yaml", "--root", "Linear", "--json")
    report = json.loads(out)
    assert status == 2
    assert (report["ok"], report["mistakes"]) == (False, 3)
    good, bad = report["files"]
    assert good == {
        "file": "good.yaml",
        "ok": True,
        "mistakes": [],
        "type": "Linear",
        "parts": {"initializer": "KaimingUniform"},
    }
    assert bad["mistakes"][0] == {
        "message": "expected an int >= 1, got 0",
        "path": "d_input",
        "source": "bad.yaml",
        "line": 1,
        "column": 10,
    }


def test_a_class_of_the_users_own_comes_in_by_import(tmp_path):
    (tmp_path / "my_layers.py").write_text(
        "from burnlike.config import ModuleConfig\n\n\nclass MineConfig(ModuleConfig, tag='Mine'):\n    size: int\n"
    )
    (tmp_path / "mine.yaml").write_text("type: Mine\nsize: 3\n")
    command = shutil.which("burnlike", path=str(Path(sys.executable).parent))
    run = [command] if command else [sys.executable, "-m", "burnlike"]
    arguments = ["check", "mine.yaml", "--root", "ModuleConfig"]
    done = subprocess.run([*run, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert (
        "mine.yaml:1:7: type: unknown type 'Mine'; did you mean 'Min'? A class of your own comes in by" in done.stdout
    )
    done = subprocess.run(
        [*run, *arguments, "--import", "my_layers"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine.yaml: ok (Mine)\n", "")


@pytest.mark.usefixtures("linear")
def test_a_module_or_root_that_does_not_exist_is_one_error(capsys):
    status, out, err = check(capsys, "good.yaml", "--import", "none_such")
    assert (status, out) == (2, "")
    assert err.startswith("burnlike: error: --import none_such: there is no module 'none_such' in ")
    assert check(capsys, "good.yaml", "--root", "Linaer") == (
        2,
        "",
        "burnlike: error: there is no config type 'Linaer'; did you mean 'Linear'?\n",
    )


def test_yaml_can_neither_import_nor_run_anything(tmp_path, capsys):
    mark = tmp_path / "mark"
    path = tmp_path / "evil.yaml"
    path.write_text(
        f"model: !!python/object/apply:os.mkdir ['{mark}']\n"
        f"data: !!python/object/new:os.mkdir ['{mark}']\n"
        "optimizer: {type: os.system}\n"
        "import: os\n"
    )
    status, out, _ = check(capsys, str(path))
    assert status == 2
    assert out.count("is not allowed: a config is plain data") == 2
    assert not mark.exists()


def test_schema_prints_what_editors_read(capsys):
    assert main(["schema", "Linear"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["definitions"]["LinearConfig"]["properties"]["type"] == {"const": "Linear"}
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "TrainConfig"
    assert main(["schema", "--list"]) == 0
    assert "\nOptimizerConfig: AdaGrad, Adafactor, Adam, AdamW" in capsys.readouterr().out


HOSTILE = "\x1b[2J\x9b31m\u202e\x07"


def test_codes_for_terminals_in_a_config_are_shown_not_sent(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = json.dumps(HOSTILE)
    names = [f"{HOSTILE}.yaml", "device.yaml", "keys.yaml"]
    Path(names[0]).write_text("seed: x\n")
    Path(names[1]).write_text(f'device: "a\\n"\noutput: {{precision: {text}}}\ndata: {{type: {text}}}\n{text}: 1\n')
    Path(names[2]).write_text(f"device: {text}\nmodel: {{type: Linear, {text}: {text}}}\n")
    for arguments in (
        names,
        [*names, "--json"],
        [names[1], "--set", f"{HOSTILE}=1"],
        [HOSTILE],
        [f"--root={HOSTILE}", "device.yaml"],
    ):
        status = main(["check", *arguments])
        captured = capsys.readouterr()
        assert status == 2
        for shown in (captured.out, captured.err):
            assert all(it.isprintable() or it == "\n" for it in shown)
        if "--json" in arguments:
            assert json.loads(captured.out)["files"][0]["file"] == names[0]


def test_a_mistake_is_one_line_whatever_the_name_of_its_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a\nb: ok.yaml").write_text("seed: x\n")
    _, out, _ = check(capsys, "a\nb: ok.yaml", "--root", "TrainConfig")
    assert all(line.startswith("a\\nb: ok.yaml:") for line in out.splitlines()[:-1])


def test_paths_that_do_not_exist_are_mistakes_with_their_place(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    text = (ROOT / "burnlike/configs/char_gpt_tiny.yaml").read_text()
    data = "data:\n  type: Text\n  path: ~/texts\n  validation_path: valid.txt\n"
    Path("a.yaml").write_text(text.replace("data:\n  type: Text\n", data))
    line = Path("a.yaml").read_text().splitlines().index("  path: ~/texts") + 1
    status, out, _ = check(capsys, "a.yaml")
    assert status == 2
    remedy = "No such file or directory; check the path, or give --no-paths for a config meant for another machine"
    assert out.splitlines()[:2] == [
        f"a.yaml:{line}:9: data.path: {tmp_path}/texts: {remedy}",
        f"a.yaml:{line + 1}:20: data.validation_path: {tmp_path}/valid.txt: {remedy}",
    ]
    assert check(capsys, "a.yaml", "--no-paths")[0] == 0
    os.mkfifo("valid.txt")
    Path("texts").mkdir()
    status, out, _ = check(capsys, "a.yaml")
    assert out.splitlines()[:-1] == [
        f"a.yaml:{line + 1}:20: data.validation_path: {tmp_path}/valid.txt is no regular file and no directory"
    ]
    Path("valid.txt").unlink()
    Path("valid.txt").touch()
    assert check(capsys, "a.yaml", "--fast")[0] == 0
    assert "data: " in check(capsys, "a.yaml")[1]  # what is there can't be used
    for file in ("texts/a.txt", "valid.txt"):
        Path(file).write_text("some words, " * 99)
    assert check(capsys, "a.yaml")[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layers: [{type: Relu}]", "1:1: missing key 'type'; expected one of 'AdaptiveAvgPool1d'"),
        ("nodes: {a: {type: Relu}}", "'Graph' has these keys"),
        ("x-a: 1\nd_input: 3\nd_output: 4", "these keys"),
        ("seed: 3", "missing key 'data'"),
        ("defaults: digits.yaml", "no such file"),
        ("modle: {type: Relu}", "unknown key 'modle'; did you mean 'model'?"),
    ],
)
def test_a_root_without_a_type_is_read_as_what_its_keys_are_of(text, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_text(text)
    status, out, _ = check(capsys, "m.yaml")
    assert status == 2
    assert message in out


@pytest.mark.parametrize(
    ("given", "meant"),
    [("Swish", "SiLU"), ("Dense", "Linear"), ("BatchNorm2d", "BatchNorm"), ("Sub", "Subtract"), ("MatMull", "MatMul")],
)
def test_a_type_by_another_name_is_told_ours(given, meant, tmp_path, capsys):
    (tmp_path / "m.yaml").write_text(f"type: Sequential\nlayers: [{{type: {given}}}]")
    assert f"unknown type '{given}'; did you mean '{meant}'?" in check(capsys, str(tmp_path / "m.yaml"))[1]


def test_processes_of_a_mesh_are_a_table(capsys):
    """Of each size, the processes that share it with rank 0; sizes that do not come out even are a mistake."""
    sizes = ["--set", "distributed={strategy: fsdp2, replicate: 2}", "--world-size"]
    status, out, _ = check(capsys, "char_gpt", "--fast", *sizes, "8")
    assert status == 0
    assert "\nreplicate  2  0, 4         items; each has a copy of the model\n" in out
    assert "\nshard      4  0, 1, 2, 3   items, each parameter, its gradient and its optimizer state\n" in out
    assert "\n8 processes, 8 with items of their own: a step has 64 items\n" in out
    status, out, _ = check(capsys, "char_gpt", "--fast", *sizes, "7")
    assert status == 2
    assert "distributed: the sizes (replicate 2 x shard 3) need 6 processes or a multiple of that, there are 7" in out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{strategy: ddp, offload: cpu}", "distributed.offload: ddp has no such option, it has precision.reduce"),
        ("{strategy: ddp, precision: {params: bfloat16}}", "distributed.precision.params: ddp has no such option"),
        ("{strategy: ddp, shard: 4}", "distributed.shard: ddp divides no parameters"),
        ("{strategy: fsdp2, plan: {a: colwise}}", "distributed.plan: says how `tensor` processes share layers"),
        ("{strategy: fsdp2, tensor: 3}", "model.n_heads: 3 processes (distributed.tensor) can't share 4 heads"),
        ("{strategy: ddp, tensor: 2, plan: {a: column}}", "distributed.plan.a: expected a way to divide a layer"),
        ("{replicate: 2}", "distributed.replicate: replicate does not work together with none: a single process"),
        ("{strategy: fsdp2, replicate: -1}", "distributed.replicate: is -1 as `shard` is"),
        ("{strategy: fsdp2, precision: {params: float16}}", "precision.params: expected 'bfloat16' or 'float32'"),
        ("{strategy: ddp, precision: {reduce: bfloat16}}", "distributed.precision.reduce: torch's DistributedDataP"),
    ],
)
def test_what_a_strategy_does_not_have_is_refused_by_name(wrong, said, capsys):
    status, out, _ = check(capsys, "char_gpt", "--fast", "--set", "device=cpu", "--set", f"distributed={wrong}")
    assert status == 2
    assert said in out
