"""`burnlike check` of a model by its directory and of `init_from`: what is wrong is said at its line, without torch."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.cli.main import main
from burnlike.record import save

from ..models.by_path.directories import bert, changed, vit

YAML = """\
data: {type: Digits}
model:
  type: Pretrained
  path: d
task: {type: Classification}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
training: {epochs: 1, batch_size: 4}
device: cpu
"""
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vit(tmp_path_factory.mktemp("vit"), shard="4KB")


@pytest.fixture(autouse=True)
def files(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(directory, "d")
    Path("f.yaml").write_text(YAML)


def check(capsys: Any, *arguments: str) -> str:
    """The first mistake, empty if there is none."""
    capsys.readouterr()
    status = main(["check", "f.yaml", *arguments])
    first = capsys.readouterr().out.splitlines()[0]
    assert (status == 0) == first.startswith("f.yaml: ok")
    return "" if status == 0 else first


def test_a_right_directory_is_ok(capsys: Any) -> None:
    assert check(capsys) == ""


def _damage(kind: str) -> None:
    shards = sorted(Path("d").glob("model-*.safetensors"))
    match kind:
        case "a shard is missing":
            shards[1].unlink()
        case "a shard is a pointer":
            shards[0].write_text(POINTER)
        case "a shard is cut":
            shards[0].write_bytes(shards[0].read_bytes()[:-4])
        case "no weights":
            for file in Path("d").glob("model*"):
                file.unlink()
        case "no config":
            Path("d/config.json").unlink()
        case "config is a pointer":
            Path("d/config.json").write_text(POINTER)
        case "config is no JSON":
            Path("d/config.json").write_text("{")
        case "unknown type":
            changed(Path("d"), model_type="vitt")
        case "own code":
            changed(Path("d"), model_type="mine", auto_map={"AutoModel": "code.Model"})
        case _:
            changed(Path("d"), quantization_config={"quant_method": "awq"})


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("a shard is missing", "d/model-00002-of-"),
        ("a shard is a pointer", "is a pointer of git-lfs in place of model-00001-of-"),
        ("a shard is cut", "truncated: the tensors end at byte"),
        ("no weights", "expected the weights of a model, got a directory without model.safetensors"),
        ("no config", "d/config.json: expected the config.json of a model, which can't be read: No such file"),
        ("config is a pointer", "a pointer of git-lfs in place of config.json; run `git lfs pull`"),
        ("config is no JSON", "d/config.json: expected the config.json of a model, which can't be read"),
        ("unknown type", "has no models of the model_type 'vitt'; did you mean 'vit'?"),
        ("own code", "no models of the model_type 'mine'; it asks for code of its own (`auto_map`)"),
        ("quantized", "the weights are quantized, and can't be trained"),
    ],
)
def test_what_is_wrong_with_a_directory_is_said_at_its_line(kind: str, expected: str, capsys: Any) -> None:
    _damage(kind)
    found = check(capsys, "--fast")
    assert found.startswith("f.yaml:4:9: model.path: ")
    assert expected in found
    if kind == "no weights":
        assert "`weights: random` draws them" in found
        assert check(capsys, "--fast", "--set", "model.weights=random") == ""


def test_a_head_that_transformers_does_not_have(capsys: Any) -> None:
    found = check(capsys, "--fast", "--set", "model.head=CausalLM")
    assert "no CausalLM of the model_type 'vit': it has ImageClassification" in found
    found = check(capsys, "--fast", "--set", "model.head=CausalLMs")
    assert "transformers knows no head CausalLMs; did you mean 'CausalLM'?" in found
    assert "n_classes: expected 1" in check(
        capsys, "--fast", "--set", "model.classes=[a]", "--set", "model.n_classes=2"
    )
    assert "fuse: is for models of transformers" in check(
        capsys, "--fast", "--set", "model.library=burnlike", "--set", "model.fuse=true"
    )


def test_a_batch_is_tried_with_the_classes_of_the_data(capsys: Any) -> None:
    found = check(capsys, "--set", "model.n_classes=3")
    assert "model: gives logits of 3 classes, and the data has 10 at least" in found
    assert "options.hiden_size: the model has no such option" in check(capsys, "--set", "model.options.hiden_size=3")


def test_tokens_that_the_model_does_not_know(capsys: Any) -> None:
    bert(Path("b"))
    text = YAML.replace("{type: Digits}", "{type: Text, context_length: 8}").replace("Classification", "LanguageModel")
    Path("f.yaml").write_text(text)
    found = check(capsys, "--set", "model.path=b", "--set", "model.head=MaskedLM")
    assert "model: knows 40 tokens, and the data has 256: its tokenizer is that of another model" in found


def test_reading_a_directory_imports_no_torch() -> None:
    code = "import sys; from burnlike.cli.main import main; s = main(['check', '--fast', 'f.yaml']); "
    code += "sys.exit(s or 9 * ('torch' in sys.modules or 'transformers' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_init_from_says_which_directory_has_no_record(capsys: Any) -> None:
    Path("empty").mkdir()
    assert "init_from: empty: expected a record, a checkpoint, a run" in check(
        capsys, "--fast", "--set", "init_from=empty"
    )
    (Path("run") / "checkpoints" / "step-00000004").mkdir(parents=True)
    Path("run/run.lock").touch()
    found = check(capsys, "--fast", "--set", "init_from={path: run}")
    assert "init_from.path: run: this run has no model.safetensors yet" in found
    assert found.endswith("its last checkpoint is run/checkpoints/step-00000004")
    found = check(capsys, "--fast", "--set", "init_from=run/checkpoints/step-00000004")
    assert "expected a checkpoint with model.safetensors or a folder model" in found
    save(torch.nn.Linear(2, 2), "run/model.safetensors")
    assert check(capsys, "--fast", "--set", "init_from=run") == ""


@pytest.mark.parametrize("data", ["type: TextClassification, text: a, target: b", "type: Chat"])
def test_files_of_a_tokenizer(data: str, capsys: Any) -> None:
    Path("t.csv").write_text("a,b\nc,d\n")
    Path("f.yaml").write_text(YAML.replace("{type: Digits}", f"{{{data}, path: t.csv, tokenizer: t}}"))
    Path("t").mkdir()
    found = check(capsys, "--fast")
    assert found.startswith("f.yaml:1:")
    assert "data.tokenizer: t: expected the files of a tokenizer, got a directory without tokenizer.json" in found
    Path("t/tokenizer.json").write_text(POINTER)
    assert "t/tokenizer.json is a pointer of git-lfs in place of tokenizer.json" in check(capsys, "--fast")
