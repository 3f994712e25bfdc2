"""Trainings on conversations with images: frozen parts, exact resume, merge, export, and what is refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from burnlike.cli.main import main
from burnlike.train import load_run

from ..data.chat.image_models import FAMILIES, image_model_in, images_in
from ..data.chat.samples import write_lines
from ..marks import slow

YAML = """
data: {type: Chat, path: chat.jsonl, tokenizer: base, max_length: 400}
model:
  type: LoRA
  of: {type: Pretrained, path: base}
  rank: 4
  targets: 'model\\.language_model\\..*_proj'
task: {type: LanguageModel}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.03}
training: {epochs: 2, batch_size: 4, checkpoint_every_steps: 2, keep_checkpoints: 99}
device: cpu
threads: 1
"""
WHOLE = "model={type: Pretrained, path: base}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    image_model_in(Path("base"), FAMILIES["llava"])
    images_in(Path(), 12)
    Path("images.yaml").write_text(YAML)
    return tmp_path


def train(name: str, *overrides: str) -> Path:
    sets = [part for it in overrides for part in ("--set", it)]
    assert main(["train", "images.yaml", "--run-dir", name, *sets]) == 0
    return Path(name)


@pytest.mark.parametrize("overrides", [[], *slow([WHOLE, "training.num_workers=1"])], ids=["lora", "whole"])
def test_a_resumed_run_ends_in_the_same_bits(overrides: list[str]) -> None:
    whole = train("whole", *overrides)
    part = Path(shutil.copytree(whole, "part"))
    for checkpoint in (part / "checkpoints").iterdir():
        if int(checkpoint.name.rpartition("-")[2]) > 2:
            shutil.rmtree(checkpoint)
    result = "model.safetensors" if overrides else "adapter/adapter_model.safetensors"
    (part / result).unlink()
    assert main(["train", "--resume", str(part)]) == 0
    assert (part / result).read_bytes() == (whole / result).read_bytes()


def test_the_language_part_is_trained_merged_and_read_by_transformers(capsys: pytest.CaptureFixture[str]) -> None:
    run = train("run")
    model: Any = load_run(run).model
    trained = [name for name, it in model.named_parameters() if it.requires_grad]
    assert trained
    assert all(name.startswith("model.language_model.") for name in trained)
    assert main(["merge", "run", "--out", "merged"]) == 0
    merged: Any = transformers.AutoModelForImageTextToText.from_pretrained("merged")
    processor = transformers.AutoProcessor.from_pretrained("merged")
    base = transformers.AutoModelForImageTextToText.from_pretrained("base")
    assert all(
        it.equal(base.get_parameter(name)) != ("language_model" in name and name.endswith("_proj.weight"))
        for name, it in merged.named_parameters()
    )
    batch = processor(text=["a <image> b"], images=["images/0_0.png"], return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(merged(**batch).logits, model.eval()(**batch).logits, rtol=1e-4, atol=1e-4)
    capsys.readouterr()
    assert main(["evaluate", "run"]) == 0
    assert "loss" in capsys.readouterr().out
    assert main(["export", "run", "--to", "hf", "--out", "exported"]) == 0
    assert transformers.AutoProcessor.from_pretrained("exported").image_token == "<image>"
    assert main(["predict", "run", "chat.jsonl", "--out", "answers.csv"]) == 2
    assert "chat.jsonl:1: images are read in trainings on `data: {type: Chat}` alone" in capsys.readouterr().err


def test_parts_are_frozen_by_their_paths() -> None:
    run = train("run", WHOLE, "freeze=['vision_tower', 'multi_modal_projector']", "training.epochs=1")
    base = transformers.AutoModelForImageTextToText.from_pretrained("base")
    model: Any = load_run(run).model
    changed = {name.split(".")[1] for name, it in model.named_parameters() if not it.equal(base.get_parameter(name))}
    assert changed == {"language_model"} or changed == {"language_model", "weight"}  # and lm_head


@pytest.mark.parametrize("kind", ["Preferences", "Prompts"])
def test_other_data_refuses_images(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    image = [{"type": "image", "image": "images/0_0.png"}, {"type": "text", "text": "a"}]
    rows = [{"prompt": [{"role": "user", "content": image}], "chosen": "b", "rejected": "c"}]
    write_lines(Path("pairs.jsonl"), [*rows, {**rows[0], "prompt": "a"}, {**rows[0], "prompt": "b"}])
    Path("pairs.yaml").write_text(YAML.replace("{type: Chat, path: chat.jsonl", f"{{type: {kind}, path: pairs.jsonl"))
    assert main(["data", "pairs.yaml"]) == 0
    assert "unread    pairs.jsonl:1: images are read in trainings on `data: {type: Chat}`" in capsys.readouterr().out
