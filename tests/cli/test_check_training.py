"""`burnlike check` of a training by one batch, and `--shapes`: wrong ones at their lines."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from burnlike.cli.main import main
from burnlike.config.shipped import shipped_jobs
from burnlike.errors import ConfigError
from burnlike.train import Job, TrainConfig

DIGITS = """\
data: {type: Digits, flat: true}
model:
  type: Sequential
  layers:
    - {type: Linear, d_input: 64, d_output: 8}
    - {type: Relu}
    - {type: Linear, d_input: 8, d_output: 10}
task: {type: Classification}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
training: {epochs: 2, batch_size: 32}
device: cpu
"""
TEXT = """\
data: {type: Text, context_length: 64}
model: {type: Sequential, layers: [{type: Linear, d_input: 64, d_output: 10}]}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
training: {epochs: 1}
device: cpu
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.yaml").write_text(DIGITS)
    Path("t.yaml").write_text(TEXT)


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    status = main(["check", *arguments])
    return status, capsys.readouterr().out.splitlines()[:-1]


def test_a_right_one_is_ok(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "d.yaml")[0] == 0


@pytest.mark.parametrize("name", shipped_jobs())
def test_shipped_trainings_are_ok(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, name)[0] == 0


@pytest.mark.parametrize(
    ("was", "now", "place", "message"),
    [
        ("d_input: 64", "d_input: 60", "5:7: model.layers.0: ", r"Linear: expected [..., 60], got [32, 64]"),
        ("d_output: 10", "d_output: 9", "3:3: model: ", "gives logits of 9 classes, and the data has 10 at least"),
        ("flat: true", "flat: false", "5:7: model.layers.0: ", "expected [..., 64], got [32, 1, 8, 8]"),
        ("Classification", "Segmentation", "8:7: task: ", "expected [n, classes, height, width] logits"),
        (
            "Classification",
            "LanguageModel",
            "8:7: task: ",
            "or [n, length + 1] integer tokens, got list",
        ),
        ("device: cpu", "metrics: [{type: TopKAccuracy, k: 11}]", "12:11: metrics.0: ", "expected at least 11 classes"),
        (
            "device: cpu",
            "metrics: [{type: Accuracy}, {type: Psnr}]",
            "12:29: metrics.1: ",
            "[n, channels, height, width]",
        ),
        (
            "{type: ConstantLr, lr: 1e-3}",
            "{type: CosineAnnealing, initial_lr: 1e-2, warmup_steps: 82}",
            "10:71: lr_s",
            "82",
        ),
        ("device: cpu", "trainable: ['^hed']", "12:13: trainable.0: ", "matches no parameter"),
        (
            "{type: AdamW}",
            "{type: AdamW, groups: [{params: {match: [{type: AnyPredicates, predicates: [x]}]}, weight_decay: 0}]}",
            "9:44: optimizer.groups.0.params: ",
            "matches no parameter",
        ),
        (
            "device: cpu",
            "distributed: {strategy: fsdp2, tensor: 2, plan: {layers.9: colwise}}",
            "12:49: distributed.plan.layers.9: ",
            "no such module; it has 0, 1, 2",
        ),
        (
            "device: cpu",
            "distributed: {strategy: fsdp2, tensor: 2, plan: {'0': replicated, '2': replicated}}",
            "12:40: distributed.tensor: ",
            "nothing says how processes divide these modules: 0, 2; say it by",
        ),
        (
            "device: cpu",
            "distributed: {strategy: fsdp2, tensor: 3, plan: {'0': colwise}}",
            "12:40: distributed.tensor: ",
            "3 processes can't share 0.weight, [64, 8], equally",
        ),
        (
            "{type: AdamW}",
            "{type: AdamW, moment_1: blockwise8}\ndistributed: {strategy: fsdp2}",
            "9:12: optimizer: ",
            "'0.weight' is sharded, and moment_1: blockwise8 can't be",
        ),
        (
            "{type: AdamW}",
            "{type: AdamW, moment_2: blockwise8}\ndistributed: {strategy: ddp, tensor: 2, plan: {'0': colwise}}",
            "9:12: optimizer: ",
            "'0.weight' is sharded, and moment_2: blockwise8 can't be",
        ),
    ],
)
def test_what_can_not_be_trained_is_told_at_its_place(
    was: str, now: str, place: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("d.yaml").write_text(DIGITS.replace(was, now, 1))
    status, lines = check(capsys, "d.yaml")
    assert status == 2
    assert lines[0].startswith(f"d.yaml:{place}")
    assert message in lines[0]
    assert check(capsys, "d.yaml", "--fast")[0] == 0


def test_a_layer_that_gets_a_part_of_what_it_takes_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    text = DIGITS.replace("{type: Relu}", "{type: LayerNorm, d_model: 8}") + "distributed: {strategy: fsdp2, tensor: 2"
    Path("d.yaml").write_text(text + ", plan: {'0': colwise, '1': replicated, '2': rowwise}}")
    status, lines = check(capsys, "d.yaml", "--world-size", "2")
    assert status == 2
    assert lines[0].startswith("d.yaml:6:7: model.layers.1: LayerNorm: expected [..., 8], got [32, 4] (with a batch of")
    assert "; layers are divided among 2 processes" in lines[0]
    whole = "{'0': colwise_gather_output, '1': replicated, '2': rowwise_split_input}"
    Path("d.yaml").write_text(text + f", plan: {whole}}}")
    assert check(capsys, "d.yaml", "--world-size", "2")[0] == 0


def test_tokens_for_a_layer_of_floats(capsys: pytest.CaptureFixture[str]) -> None:
    message = "model.layers.0: Linear: expected floats, got int64[32, 64]; tokens go through an Embedding first"
    status, lines = check(capsys, "t.yaml")
    assert status == 2
    assert lines[0].startswith(f"t.yaml:2:36: {message}")
    # a training says so too, before anything is written
    with pytest.raises(ConfigError, match=r"model\.layers\.0: Linear: expected floats, got int64"):
        Job(TrainConfig.load("t.yaml"))
    assert main(["train", "t.yaml"]) == 2
    assert not Path("runs").exists()


OWN = """\
import torch
from burnlike.config import DatasetConfig, ModuleConfig
from burnlike.data import Splits

class OwnDataConfig(DatasetConfig[Splits], tag="OwnData"):
    gives: str = "float32"

    def init(self):
        items = [(torch.ones(64, dtype=getattr(torch, self.gives, None)), 0)] * 8
        if self.gives == "pair":
            return items, items
        return Splits(items if self.gives != "nothing" else [], [] if self.gives in ("nothing", "training") else items)

class OwnNetConfig(ModuleConfig, tag="OwnNet"):
    fails: bool = False

    def init(self, device=None):
        if self.fails:
            raise ValueError("no such thing")
        return torch.nn.Sequential(torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10)).to(device)
"""


@pytest.fixture
def own() -> tuple[str, ...]:
    """The arguments of a command for a job of data and a model of one's own."""
    Path("own_parts.py").write_text(OWN)
    rest = "task: {type: Classification}\noptimizer: {type: AdamW}\ntraining: {epochs: 1, batch_size: 4}\n"
    Path("o.yaml").write_text(f"data: {{type: OwnData}}\nmodel: {{type: OwnNet}}\n{rest}")
    return "o.yaml", "--import", "own_parts"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "data.gives=float64",
            "model: 1: Linear: expected float32, as its parameters are, got float64[4, 64]; return x.to(torch.float32)"
            " from the dataset",
        ),
        ("data.gives=pair", "data: expected Splits(train, valid) from init() of the data's config, got tuple"),
        ("model.fails=true", "model: ValueError: no such thing"),
        (
            "data.gives=nothing",
            "data: expected at least one item in each part of the data, got none in train and",
        ),
        ("data.gives=training", "data: expected at least one item in each part of the data, got none in valid"),
    ],
)
def test_a_mistake_in_own_code_is_a_line(
    own: tuple[str, ...], option: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(capsys, *own)[0] == 0
    status, (line, *more) = check(capsys, *own, "--set", option)
    assert (status, more) == (2, [])
    assert line.startswith(f"--set {option}: {message}")
    if option.startswith("data"):
        assert main(["train", *own, "--set", option]) == 2
        assert message.removeprefix("data: ") in capsys.readouterr().err
    assert not Path("runs").exists()


def test_what_an_option_breaks_stands_at_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = check(capsys, "d.yaml", "--set", "model.layers[2].d_output=9")
    assert lines == ["--set model.layers[2].d_output=9: model: gives logits of 9 classes, and the data has 10 at least"]


def test_a_model_that_looks_at_values_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.py").write_text(
        "from burnlike.config import ModuleConfig\n"
        "class LooksConfig(ModuleConfig, tag='Looks'):\n"
        "    def init(self, device=None):\n"
        "        import torch\n"
        "        class Looks(torch.nn.Linear):\n"
        "            def forward(self, x):\n"
        "                return super().forward(x) * (2 if x.sum() > 0 else 1)\n"
        "        return Looks(64, 10, device=device)\n"
    )
    data, rest = DIGITS.split("model:", 1)
    Path("own.yaml").write_text(f"{data}model: {{type: Looks}}\ntask:{rest.split('task:', 1)[1]}")
    assert check(capsys, "own.yaml", "--import", "own")[0] == 0


def test_the_batch_changes_no_random_numbers() -> None:
    import torch

    torch.manual_seed(0)
    first = Job(TrainConfig.from_yaml(DIGITS)).model.state_dict()
    second: dict[str, Any] = Job(TrainConfig.from_yaml(DIGITS)).model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_fast_takes_well_below_a_second() -> None:
    code = "import sys\nfrom burnlike.cli.main import main\nassert main(['check', '--fast', 'd.yaml']) == 0\n"
    code += "assert 'torch' not in sys.modules\n"
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = os.times()  # of the children, whatever else the machine does
    assert after.children_user + after.children_system - before.children_user - before.children_system < 2


GRAPH = """type: Graph
nodes:
  stem: {type: Conv2d, channels: [3, 16], kernel_size: 3, padding: Same, bias: false}
  relu: {type: Relu}
  again: {use: relu}
  sum: {type: Add, from: [again, stem]}
  stack:
    type: Repeat
    times: 2
    layer:
      type: Residual
      layers:
        conv: {type: Conv2d, channels: [16, 16], kernel_size: 1}
  mean: {type: Mean, dims: [2, 3]}
  head: {type: Linear, d_input: 16, d_output: 10}
outputs: [head, mean]
"""


@pytest.fixture(autouse=True)
def graph_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graph.yaml").write_text(GRAPH)


def run_check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["check", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_each_call_is_a_line_with_shapes_parameters_and_operations(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run_check(capsys, "graph.yaml", "--shapes", "--input", "8,3,32,32")
    assert status == 0
    rows = [line.split("  ") for line in out.splitlines()]
    rows = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    pixels = 8 * 32 * 32
    conv, point, head = pixels * 16 * 27 * 2, pixels * 16 * 16 * 2, 8 * 16 * 10 * 2
    assert (conv, point, head) == (7_077_888, 4_194_304, 2_560)
    inner = "[8, 16, 32, 32]"
    total = f"{(conv + 2 * point + head) / 1e6:.2f} M"
    block = [["Residual", inner, inner, "272", "4.19 M"], ["Sequential", inner, inner, "272", "4.19 M"]]
    block += [["Conv2d", inner, inner, "272", "4.19 M"]]
    assert [row[1:] for row in rows[1:-2]] == [
        ["Graph", "[8, 3, 32, 32]", "([8, 10], [8, 16])", "1,146", total],
        ["Conv2d", "[8, 3, 32, 32]", inner, "432", "7.08 M"],
        ["Relu", inner, inner, "-", "-"],
        ["Relu", inner, inner, "-", "-"],
        ["Add", f"{inner}, {inner}", inner, "-", "-"],
        ["Repeat", inner, inner, "544", "8.39 M"],
        *block,
        *block,
        ["Mean", inner, "[8, 16]", "-", "-"],
        ["Linear", "[8, 16]", "[8, 10]", "170", "2.56 k"],
    ]
    names = ["(model)", "stem", "relu", "relu", "sum", "stack", "0", "layers", "conv", "1", "layers", "conv"]
    assert [row[0] for row in rows[1:-2]] == [*names, "mean", "head"]
    assert out.splitlines()[-2:] == [
        f"total: 1,146 parameters, {total} FLOPs for these inputs",
        "graph.yaml: ok (Graph)",
    ]


def test_a_wrong_shape_is_reported_at_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.yaml").write_text(GRAPH.replace("channels: [16, 16], kernel", "channels: [8, 16], kernel"))
    status, out, _ = run_check(capsys, "wrong.yaml", "--shapes", "--input", "x=8,3,32,32")
    assert status == 2
    assert out.splitlines()[-2:] == [
        "wrong.yaml:13:15: nodes.stack.layer.layers.conv: Conv2d:"
        " expected [batch, 8, height, width], got [8, 16, 32, 32]",
        "1 mistake in 1 file of 1",
    ]
    assert out.splitlines()[-3].split()[-3:] == ["failed", "144", "-"]


def test_it_is_found_in_the_model_of_a_training_config(capsys: pytest.CaptureFixture[str]) -> None:
    text = """
training: {batch_size: 4}
data: {type: Text, context_length: 16}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
model:
  type: Sequential
  layers:
  - {type: Embedding, n_embedding: 256, d_model: 8}
  - {type: Flatten, start_dim: 2}
  - {type: Linear, d_input: 9, d_output: 256}
"""
    Path("run.yaml").write_text(text)
    status, out, _ = run_check(capsys, "run.yaml", "--shapes")
    assert (status, out.splitlines()[-2]) == (
        2,
        "run.yaml:11:5: model.layers.2: Linear: expected [..., 9], got [4, 16, 8]",
    )
    Path("run.yaml").write_text(text.replace("d_input: 9", "d_input: 8"))
    status, out, _ = run_check(capsys, "run.yaml", "--shapes")
    assert status == 0
    assert "int64[4, 16]  [4, 16, 256]" in out


def test_any_module_is_shown_with_the_inputs_that_its_config_implies(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lm.yaml").write_text(
        "{type: DecoderLm, vocab_size: 7, max_sequence_length: 6, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 4}"
    )
    status, out, _ = run_check(capsys, "lm.yaml", "--shapes")
    assert status == 0
    assert "int64[1, 6]" in out
    Path("mlp.yaml").write_text("{type: Sequential, layers: [{type: Linear, d_input: 3, d_output: 2}]}")
    assert run_check(capsys, "mlp.yaml", "--shapes")[0] == 0


def test_within_a_layer_the_path_of_the_wrong_part_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mlp.yaml").write_text(
        "type: Sequential\nlayers:\n- {type: Relu}\n- {type: SwiGlu, d_input: 3, d_output: 2}\n"
    )
    status, out, _ = run_check(capsys, "mlp.yaml", "--shapes", "--input", "5,4")
    assert (status, out.splitlines()[-2]) == (
        2,
        "mlp.yaml:4:3: layers.1: linear_inner: Linear: expected [..., 3], got [5, 4]",
    )


def test_without_inputs_the_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rule.yaml").write_text("type: AdamW")
    status, out, _ = run_check(capsys, "graph.yaml", "rule.yaml", "resnet18_cifar", "--shapes")
    assert status == 2
    assert "graph.yaml: the config does not say what the model's inputs are; give them by --input" in out
    assert "rule.yaml: --shapes: AdamWConfig has no model" in out
    assert "total: 11,173,962 parameters" in out  # the others are shown all the same
    assert out.endswith("2 mistakes in 2 files of 3\n")


def test_items_that_are_not_there_and_wrong_calls_are_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("item.yaml").write_text(
        "{type: Graph, nodes: {lstm: {type: Lstm, d_input: 2, d_hidden: 3, bias: true}}, outputs: lstm.2}"
    )
    status, out, _ = run_check(capsys, "item.yaml", "--input", "4,5,2")
    assert (status, out.splitlines()[-2]) == (
        2,
        "item.yaml:1:1: Graph: lstm.2: 'lstm' has no item '2' there: it gives 2 items",
    )
    status, out, _ = run_check(capsys, "item.yaml", "--input", "y=4,5,2")
    assert (status, out.splitlines()[-2]) == (
        2,
        "item.yaml:1:1: Graph: expected the inputs x, got 0 by order and y by name",
    )


def test_json_has_the_calls(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run_check(capsys, "graph.yaml", "--input", "1,3,4,4", "--json")
    (report,) = json.loads(out)["files"]
    assert status == 0
    assert report["calls"][1] == {
        "path": "stem",
        "depth": 1,
        "type": "Conv2d",
        "inputs": "[1, 3, 4, 4]",
        "output": "[1, 16, 4, 4]",
        "parameters": 432,
        "flops": 16 * 16 * 27 * 2,
    }


@pytest.mark.parametrize("text", ["8,x", "a=b=3", "float:3", "-1,2", "8,3,", "99999999999"])
def test_inputs_that_are_none_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "graph.yaml", f"--input={text}"])
    assert "argument --input:" in capsys.readouterr().err


def test_a_tied_head_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lm.yaml").write_text(
        "{type: DecoderLm, vocab_size: 7, max_sequence_length: 6, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 4}"
    )
    Path("tied.yaml").write_text(
        "{type: Graph, inputs: {tokens: 'int64:1,6'}, nodes: {embedding: {type: Embedding, n_embedding: 7, d_model: 8},"
        " head: {use: embedding, transposed: true}}}"
    )
    for file in ("lm.yaml", "tied.yaml"):
        status, out, _ = run_check(capsys, file, "--shapes")
        assert status == 0
        (row,) = [line.split() for line in out.splitlines() if "(tied)" in line]
        assert row[:3] == ["embedding", "(tied)", "Embedding"]
        assert row[-1] == str(2 * 6 * 8 * 7)
    status, out, _ = run_check(capsys, "lm.yaml", "--shapes", "--set", "tied=false")
    assert "(tied)" not in out


def test_a_classification_of_numbers_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text("a,b,c\n" + "".join(f"{it},{it * 30},{it / 10}\n" for it in range(20)))
    job = """\
data: {type: Csv, path: t.csv, target: [b, c], kind: numbers}
model: {type: Mlp, hidden: [4]}
task: {type: Classification}
optimizer: {type: AdamW}
training: {epochs: 1, batch_size: 4}
"""
    Path("n.yaml").write_text(job)
    status, lines = check(capsys, "n.yaml")
    assert status == 2
    assert lines[0].startswith("n.yaml:3:7: task: Classification takes classes, or shares of classes that sum to 1")
    assert "say `task: Regression`, or `kind: classes`" in lines[0]
    assert check(capsys, "n.yaml", "--set", "task={type: Regression}")[0] == 0
    Path("t.csv").write_text("a,b,c\n" + "".join(f"{it},{it / 20},{1 - it / 20}\n" for it in range(20)))
    assert check(capsys, "n.yaml")[0] == 0


def test_a_schedule_may_be_left_out() -> None:
    text = DIGITS.replace("lr_scheduler: {type: ConstantLr, lr: 1e-3}\n", "")
    rates = []
    for optimizer in ("AdamW", "Sgd"):
        schedule = TrainConfig.from_yaml(text.replace("AdamW", optimizer)).schedule(200).init(200)
        rates.append([schedule.step() for _ in range(200)])
    assert [max(it) for it in rates] == [1e-3, 1e-2]
    assert all(it[0] < it[9] > it[-1] and it[-1] < 1e-4 * it[9] * 10 for it in rates)


def test_an_area_needs_two_classes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text("a,y\n" + "".join(f"{it},x\n" for it in range(20)))
    Path("n.yaml").write_text(
        """\
data: {type: Csv, path: t.csv, target: y}
model: {type: Mlp, hidden: [4]}
task: {type: Classification}
metrics: [{type: Auroc}]
optimizer: {type: AdamW}
training: {epochs: 1, batch_size: 4}
"""
    )
    status, lines = check(capsys, "n.yaml")
    assert status == 2
    assert "metrics.0: Auroc tells two classes apart, and the data has only 'x'; look at data.target" in lines[0]


def test_a_training_tells_a_warm_up_as_long_as_the_run_as_the_check_does(capsys: pytest.CaptureFixture[str]) -> None:
    Path("d.yaml").write_text(
        DIGITS.replace("{type: ConstantLr, lr: 1e-3}", "{type: CosineAnnealing, initial_lr: 1e-2, warmup_steps: 82}")
    )
    _, (line,) = check(capsys, "d.yaml")
    assert main(["train", "d.yaml"]) == 2
    _, _, message = line.partition("lr_scheduler.warmup_steps: ")
    assert capsys.readouterr().err == f"burnlike: error: lr_scheduler.warmup_steps: {message}\n"
    assert not Path("runs").exists()
