"""Runs with adapters and on chat data: what they leave, how they are read again, and LoRA beside peft in float64."""

import io
import json
import math
import re
import shutil
from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from torch import Tensor
from torch.nn import functional

from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.errors import ConfigError, RecordMismatchError
from burnlike.interop import load_adapter, save_adapter
from burnlike.interop.adapters.layers import adapted
from burnlike.models import DecoderLmConfig, PretrainedConfig, save_pretrained
from burnlike.record import open_record
from burnlike.train import (
    Callback,
    Interrupted,
    Interrupter,
    Job,
    Learner,
    PlainRenderer,
    RunDir,
    TrainConfig,
    load_run,
)

from ..data.chat.samples import conversations, tokenizer_in, turns, write_lines
from ..models.by_path.directories import llama
from .samples import files_of, metrics_of

YAML = """
data: {type: Tokens, path: DIR/tokens.bin, context_length: 8}
model: {type: LoRA, of: {type: Pretrained, path: DIR/base, library: burnlike}, rank: 2, targets: [query, linear_outer]}
task: {type: LanguageModel, sample_length: 0}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.03}
training:
  {epochs: 2, steps_per_epoch: 3, batch_size: 4, validation_steps: 1, checkpoint_every_steps: 2, keep_checkpoints: 9}
device: cpu
threads: 1
"""
TOKENS = torch.arange(8)[None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("adapters")
    torch.manual_seed(0)
    base = DecoderLmConfig(vocab_size=32, max_sequence_length=16, d_model=16, n_layers=2, n_heads=2, d_ff=32)
    save_pretrained(base.init("cpu"), place / "base", config=base)
    torch.randint(0, 32, (900,), dtype=torch.int32).to(torch.uint16).numpy().tofile(place / "tokens.bin")
    train(place, "run")
    return place


def config(place: Path, *overrides: str) -> TrainConfig:
    return TrainConfig.from_yaml(YAML.replace("DIR", str(place)), "f.yaml", [*overrides])


def train(place: Path, name: str, *overrides: str) -> Any:
    with closing(RunDir.create(place / name)) as run:
        return Job(config(place, *overrides)).run(run, PlainRenderer(io.StringIO()))


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found = model(TOKENS)
    return getattr(found, "logits", found)


def test_a_run_leaves_adapters_and_no_base(folder: Path) -> None:
    run = folder / "run"
    assert sorted(it.name for it in (run / "adapter").iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors", "base.json",
    ]  # fmt: skip
    assert not (run / "model.safetensors").exists()
    loaded = load_run(run)
    base = PretrainedConfig(path=str(folder / "base"), library="burnlike").init("cpu").eval()
    before = logits(base)
    load_adapter(base, run / "adapter")
    assert torch.equal(logits(base), logits(loaded.model))
    assert not torch.equal(logits(base), before)
    checkpoint = open_record(run / "checkpoints" / "step-00000006" / "model.safetensors")
    assert len(checkpoint.tensors) == 8 == sum(it.requires_grad for it in base.parameters())
    assert all(".lora." in it for it in checkpoint.tensors)
    assert logits(load_run(run, step=2).model).shape == (1, 8, 32)


@pytest.mark.parametrize("start", ["default", "orthogonal", "pissa_niter_2", "eva"])
def test_a_resumed_run_ends_in_the_same_bits(folder: Path, start: str) -> None:
    name, options = f"start-{start}", [f"model.start={start}"]
    train(folder, name, *options)
    shutil.copytree(folder / name, folder / f"{name}-again")
    for step in (4, 6):
        shutil.rmtree(folder / f"{name}-again" / "checkpoints" / f"step-{step:08}")
    ends = [path.relative_to(folder / name) for path in (folder / name).glob("**/*model.safetensors")]
    ends = [it for it in ends if "checkpoints" not in it.parts]
    for path in ends:
        (folder / f"{name}-again" / path).unlink()
    with closing(RunDir.open(folder / f"{name}-again")) as run:
        Job(config(folder, *options)).run(run, PlainRenderer(io.StringIO()))
    has_adapter = not start.startswith("pissa")  # else peft's files would be of another base
    assert [str(it) for it in ends] == ["adapter/adapter_model.safetensors" if has_adapter else "model.safetensors"]
    files = [folder / each / ends[0] for each in (name, f"{name}-again")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_adapters_of_experts_are_a_runs(folder: Path, tmp_path: Path) -> None:
    experts = {"num_local_experts": 3, "num_experts_per_tok": 2, "num_key_value_heads": 1}
    llama(tmp_path / "base", transformers.MixtralForCausalLM, **experts)
    options = [f"model.of={{type: Pretrained, path: {tmp_path / 'base'}}}", "model.targets=[q_proj]"]
    train(folder, "experts", "~model.of", *options, "model.target_parameters=[down_proj]", "training.epochs=1")
    expected = logits(load_run(folder / "experts").model)
    shutil.rmtree(folder / "experts" / "checkpoints")
    assert torch.equal(logits(load_run(folder / "experts").model), expected)
    assert main(["merge", str(folder / "experts"), "--out", str(tmp_path / "merged")]) == 0
    merged = transformers.MixtralForCausalLM.from_pretrained(tmp_path / "merged").eval()
    torch.testing.assert_close(logits(merged), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.start=loftq"], "loftq needs bitsandbytes, which computes it on GPUs alone"),
        (["model.start=eva", "distributed={strategy: fsdp2}"], "expected default where processes share a model"),
        (
            ["model.start=eva", "task={type: Dpo}"],
            "expected another than eva for Dpo, which runs a model several times",
        ),
        (["model.start=best"], "expected default, gaussian, orthogonal, eva, pissa"),
        (["model.start=pissa", "model.quantize=nf4"], "expected no pissa with quantize"),
        (["model.start=pissa", "distributed={strategy: fsdp2}"], "expected default where processes share a model"),
        (["model.start=olora", "init_from={path: a.safetensors}"], "olora begins with weights of the same names"),
    ],
)
def test_starts_that_can_not_be_are_named(folder: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(folder, *overrides)


def test_a_run_that_began_with_weights_is_merged(folder: Path, tmp_path: Path) -> None:
    train(folder, "merging", "model.start=pissa", "training.epochs=1", "output.precision=float32")
    expected = logits(load_run(folder / "merging").model)
    shutil.rmtree(folder / "merging" / "checkpoints")
    assert main(["merge", str(folder / "merging"), "--out", str(tmp_path / "merged")]) == 0
    merged: Any = ModuleConfig.load(tmp_path / "merged" / "model.yaml")
    merged = merged.init_from(open_record(tmp_path / "merged" / "model.safetensors"), "cpu").eval()
    torch.testing.assert_close(logits(merged), expected)


def test_another_base_is_refused(folder: Path) -> None:
    kept = (folder / "base" / "model.safetensors").read_bytes()
    torch.manual_seed(1)
    other = DecoderLmConfig(vocab_size=32, max_sequence_length=16, d_model=16, n_layers=2, n_heads=2, d_ff=32)
    try:
        save_pretrained(other.init("cpu"), folder / "base", config=other)
        for step in (None, 4):
            with pytest.raises(RecordMismatchError, match="beside other frozen weights"):
                load_run(folder / "run", step=step)
    finally:
        (folder / "base" / "model.safetensors").write_bytes(kept)
    assert load_run(folder / "run").step == 6


@pytest.mark.parametrize("rank", [1, 4])
def test_ranks_by_the_data_are_those_of_the_run(folder: Path, tmp_path: Path, rank: int) -> None:
    start = "model.start={type: Eva, rho: 2, adjust_scaling_factors: false}"
    run = folder / f"eva-{rank}"
    train(folder, run.name, start, f"model.rank={rank}", "model.alpha=8", "training.epochs=1")
    model = load_run(run).model
    layers = adapted(model)
    ranks = {path: it.lora.a.shape[1] for path, it in layers.items() if it.lora is not None}
    assert len({*ranks.values()}) > 1
    assert sum(ranks.values()) == 4 * rank
    assert (len(ranks) < 4) == (rank == 1)  # a layer without a direction has no adapter
    assert all(it.lora.scale == 8 / ranks[path] for path, it in layers.items() if it.lora is not None)
    described = json.loads((run / "adapter" / "adapter_config.json").read_text())
    assert {re.escape(path) for path, it in ranks.items() if it != described["r"]} == {
        it.removeprefix("^") for it in described["rank_pattern"]
    }
    again: Any = PretrainedConfig(path=str(folder / "base"), library="burnlike").init("cpu").eval()
    load_adapter(again, run / "adapter")
    assert torch.equal(logits(again), logits(model))
    assert main(["merge", str(run), "--out", str(tmp_path / "merged")]) == 0
    merged: Any = ModuleConfig.load(tmp_path / "merged" / "model.yaml")
    merged = merged.init_from(open_record(tmp_path / "merged" / "model.safetensors"), "cpu").eval()
    torch.testing.assert_close(logits(merged), logits(model))


BESIDE = {
    "ema": ["training.ema={decay: 0.5}"],
    "dora": ["model.dora=true", "model.dropout=0.1"],
    "bias": ["model.bias=lora_only"],
    "pissa": ["model.start=pissa", "output.precision=float32"],
    "orthogonal": ["model.start=orthogonal"],
}


@pytest.mark.parametrize("name", BESIDE)
def test_averages_magnitudes_and_biases_are_trained_and_read(folder: Path, name: str) -> None:
    options = BESIDE[name]
    train(folder, name, *options, "training.epochs=1")
    final, last = load_run(folder / name), load_run(folder / name, best=False)
    shutil.rmtree(folder / name / "checkpoints")
    assert torch.equal(logits(load_run(folder / name).model), logits(final.model))
    assert last.step == 3


def test_a_base_that_is_drawn_is_kept_whole(folder: Path) -> None:
    of = "{type: DecoderLm, vocab_size: 32, max_sequence_length: 16, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 32}"
    train(folder, "own", "~model.of", f"model.of={of}", "training.epochs=1", "output.precision=float32")
    found = load_run(folder / "own")
    assert (folder / "own" / "model.safetensors").exists()
    shutil.rmtree(folder / "own" / "checkpoints")
    assert torch.equal(logits(load_run(folder / "own").model), logits(found.model))


def test_adapters_are_trained_on(folder: Path) -> None:
    train(folder, "more", f"model.adapter={folder / 'run'}", "training.epochs=1", "lr_scheduler.lr=1e-30")
    assert torch.allclose(logits(load_run(folder / "more").model), logits(load_run(folder / "run").model), atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of peft
@pytest.mark.parametrize("saved", ["[]", "[lm_head]"])
def test_adapters_of_a_model_with_more_tokens_are_trained_on(folder: Path, tmp_path: Path, saved: str) -> None:
    transformers.logging.disable_progress_bar()
    llama(tmp_path / "llama", vocab_size=32, tie_word_embeddings=True)
    base = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "llama")
    base.resize_token_embeddings(37)
    whole = ["lm_head"] if "lm_head" in saved else None
    theirs: Any = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=whole))
    theirs.save_pretrained(tmp_path / "peft")
    of = f"{{type: Pretrained, path: {tmp_path / 'llama'}, head: CausalLM}}"
    model = f"{{type: LoRA, of: {of}, rank: 2, alpha: 8, targets: [q_proj], modules_to_save: {saved}}}"
    options_of_run = [f"data.path={folder / 'tokens.bin'}", "~model", f"model={model}"]
    train(tmp_path, "run", *options_of_run, f"model.adapter={tmp_path / 'peft'}")
    expected = logits(load_run(tmp_path / "run").model)
    assert expected.shape == (1, 8, 37)
    assert torch.equal(logits(load_run(tmp_path / "run", step=6).model), expected)
    shutil.rmtree(tmp_path / "peft")
    assert torch.equal(logits(load_run(tmp_path / "run", step=6).model), expected)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    assert torch.equal(logits(load_run(tmp_path / "run").model), expected)
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "llama")
    again.resize_token_embeddings(37)
    theirs = peft.PeftModel.from_pretrained(again, str(tmp_path / "run" / "adapter")).eval()
    torch.testing.assert_close(logits(theirs), expected)
    assert main(["merge", str(tmp_path / "run"), "--out", str(tmp_path / "merged")]) == 0
    torch.testing.assert_close(logits(transformers.LlamaForCausalLM.from_pretrained(tmp_path / "merged")), expected)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("model.targets=[qery]", "targets: no layer 'qery'; did you mean 'query'?"),
        ("model.targets=[]", "model.targets: expected layers"),
        ("model.ranks={blocks.0.attention.qery: 3}", "ranks: 'blocks.0.attention.qery' has no adapter; did you mean"),
        ("model.targets='(up'", "model.targets: expected a regular expression"),
        ("model.dropout=1", "model.dropout: expected a number >= 0 and < 1"),
        ("model.modules_to_save=[headd]", "modules_to_save: no module 'headd'"),
        ("model.adapter=DIR/base", "expected a directory with peft's adapter_config.json, or a run with adapters"),
        ("model.of={type: LoRA, of: {type: Relu}}", "model.of: expected a model without adapters"),
    ],
)
def test_check_says_what_is_wrong(folder: Path, capsys: Any, option: str, message: str) -> None:
    (folder / "f.yaml").write_text(YAML.replace("DIR", str(folder)))
    assert main(["check", str(folder / "f.yaml"), "--set", option.replace("DIR", str(folder))]) == 2
    shown = capsys.readouterr()
    assert message in shown.out + shown.err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torchao
@pytest.mark.parametrize("scheme", ["int8", "nf4"])
def test_a_quantized_base_is_trained_and_resumed(folder: Path, scheme: str) -> None:
    options = [f"model.quantize={scheme}", "model.dora=true"]
    train(folder, scheme, *options)
    shutil.copytree(folder / scheme, folder / f"{scheme}-again")
    shutil.rmtree(folder / f"{scheme}-again" / "checkpoints" / "step-00000006")
    with closing(RunDir.open(folder / f"{scheme}-again")) as run:
        Job(config(folder, *options)).run(run, PlainRenderer(io.StringIO()))
    first, second = (load_run(folder / name).model for name in (scheme, f"{scheme}-again"))
    assert torch.equal(logits(first), logits(second))
    assert json.loads((folder / scheme / "adapter" / "adapter_config.json").read_text())["use_dora"]


WARM_UP, RATE, DECAY, NORM = 2, 1e-2, 0.05, 0.5
PEFT_YAML = f"""
data: {{type: Chat, path: DIR/chat.jsonl, tokenizer: DIR/llama, max_length: 96}}
model: {{type: LoRA, of: {{type: Pretrained, path: DIR/llama, dtype: float64}}, rank: 4, alpha: 8}}
task: {{type: LanguageModel, sample_length: 0}}
optimizer:
  type: AdamW
  epsilon: 1e-8
  weight_decay: {DECAY}
  grad_clipping: {{type: ClipByGlobalNorm, threshold: {NORM}}}
lr_scheduler: {{type: CosineAnnealing, initial_lr: {RATE}, warmup_steps: {WARM_UP}}}
training: {{epochs: 1, steps_per_epoch: 6, batch_size: 3, log_every_steps: 1, validation_steps: 1}}
device: cpu
threads: 1
"""


class Seen(Callback):
    """What a training is given, and what it makes of it."""

    def __init__(self) -> None:
        self.batches: list[Mapping[str, Tensor]] = []
        self.losses: list[float] = []
        self.adapters: list[dict[str, Tensor]] = []

    def on_batch_start(self, learner: Learner[Any], batch: Any) -> None:
        self.batches.append({name: it.clone() for name, it in batch.items()})

    def on_metrics(self, learner: Learner[Any], line: Mapping[str, Any]) -> None:
        if line["split"] == "train":
            self.losses.append(line["loss"])

    def on_step_end(self, learner: Learner[Any]) -> None:
        self.adapters.append({name: it.detach().clone() for name, it in _trained(learner.model)})


def _trained(model: Any) -> list[tuple[str, Tensor]]:
    """The matrices by peft's names."""
    found = []
    for name, tensor in model.named_parameters():
        if tensor.requires_grad:
            path = name.replace("parametrizations.weight.0.", "lora_").replace("lora_a", "lora_A.weight")
            is_factor = tensor.dim() == 2 and "parametrizations" in name
            found.append((path.replace("lora_b", "lora_B.weight"), tensor.mT if is_factor else tensor))
    return found


@pytest.fixture(scope="module")
def peft_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lora")
    llama(path / "llama", vocab_size=300, max_position_embeddings=96, num_key_value_heads=1)
    llama(path / "tied", vocab_size=300, max_position_embeddings=96, num_key_value_heads=1, tie_word_embeddings=True)
    tokenizer_in(path / "llama")
    write_lines(path / "chat.jsonl", [{"messages": it} for it in conversations(40)])
    return path


def _loss(model: Any, batch: Mapping[str, Tensor]) -> Tensor:
    """The mean over all labels that count; packed documents are given to the model one by one."""
    sums, count = [], 0
    for row in range(len(batch["input_ids"])):
        tokens, labels = batch["input_ids"][row], batch["labels"][row]
        positions = batch.get("position_ids", torch.arange(len(tokens)).expand(len(batch["input_ids"]), -1))[row]
        begins = [*(positions == 0).nonzero().flatten().tolist(), len(tokens)]
        for begin, end in pairwise(begins):
            part = labels[begin:end][1:]
            if bool((part != -100).any()):
                logits = model(input_ids=tokens[None, begin:end]).logits[0, :-1]
                sums.append(functional.cross_entropy(logits, part, ignore_index=-100, reduction="sum"))
                count += int((part != -100).sum())
    return torch.stack(sums).sum() / count


def _rate(step: int, steps: int) -> float:
    if step < WARM_UP:
        return RATE * (step + 1) / WARM_UP
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP)))


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
@pytest.mark.parametrize(
    "overrides",
    [
        ["data.packing=false"],
        ["data.packing=true", "model.of.fuse=true"],
        ["model.of.path=DIR/tied", "model.modules_to_save=[embed_tokens, lm_head]"],
        pytest.param(["data.packing=true", "model.dora=true"], marks=pytest.mark.slow),
        pytest.param(
            ["data.packing=false", "model.rslora=true", "model.targets=[q_proj, down_proj]"], marks=pytest.mark.slow
        ),
    ],
)
def test_each_step_is_that_of_peft_and_a_loop_by_hand(overrides: list[str], peft_folder: Path, tmp_path: Path) -> None:
    overrides = [it.replace("DIR", str(peft_folder)) for it in overrides]
    job = Job(TrainConfig.from_yaml(PEFT_YAML.replace("DIR", str(peft_folder)), "f.yaml", overrides))
    save_adapter(job.model, tmp_path / "start")
    seen = Seen()
    with closing(RunDir.create(tmp_path / "run")) as run:
        job.run(run, callbacks=[seen])

    base = transformers.AutoModelForCausalLM.from_pretrained(job.config.model.of.path, dtype=torch.float64)  # pyright: ignore[reportAttributeAccessIssue]
    model: Any = peft.PeftModel.from_pretrained(base, str(tmp_path / "start"), is_trainable=True)
    own = {name.removeprefix("base_model.model.").replace(".default", ""): it for name, it in model.named_parameters()}
    chosen = [it for it in model.parameters() if it.requires_grad]
    optimizer = torch.optim.AdamW(chosen, lr=RATE, weight_decay=DECAY)
    assert len(seen.batches) == len(seen.losses) == 6
    for step, (batch, loss_of_ours, ours) in enumerate(zip(seen.batches, seen.losses, seen.adapters, strict=True)):
        loss = _loss(model, batch)
        assert loss_of_ours == pytest.approx(loss.item(), abs=1e-9)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.stack([it.grad.norm() for it in chosen]).norm().item()
        for it in chosen:
            it.grad *= min(1.0, NORM / norm)
        optimizer.param_groups[0]["lr"] = _rate(step, 6)
        optimizer.step()
        assert len(ours) == len(chosen)
        for name, value in ours.items():
            torch.testing.assert_close(value, own[_theirs(name, own)], rtol=0, atol=1e-9)


def _theirs(name: str, own: Mapping[str, Tensor]) -> str:
    forms = (name, name.replace("lora_magnitude", "lora_magnitude_vector.weight"))
    return next((it for it in forms if it in own), name.replace(".weight", ".modules_to_save.weight"))


CHAT_YAML = """\
data: {type: Chat, path: chat.jsonl, tokenizer: tokenizer, max_length: 80, packing: true}
model: {type: DecoderLm, vocab_size: 300, max_sequence_length: 80, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 24}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.01}
training: {epochs: 1, batch_size: 2, accumulation_steps: 2}
task: {type: LanguageModel, sample_length: 5}
device: cpu
threads: 1
"""


@pytest.fixture
def directory(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tokenizer_in(tmp_path / "tokenizer")
    write_lines(tmp_path / "chat.jsonl", [{"messages": it} for it in conversations(60)])
    (tmp_path / "chat.yaml").write_text(CHAT_YAML)
    return tmp_path


class StopsAt(Interrupter):
    """Stops a run after some steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._left = steps

    def check(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Interrupted(2)


def run(path: str, *options: str, stop: int | None = None) -> Path:
    config = TrainConfig.load("chat.yaml", options)
    place = Path(path)
    with closing(RunDir.open(place) if place.exists() else RunDir.create(place)) as directory:
        try:
            Job(config).run(directory, interrupter=None if stop is None else StopsAt(stop))
        except Interrupted:
            assert stop is not None
    return place


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_packed_run_resumes_in_the_same_bits(directory, workers, capsys):
    often = ("training.checkpoint_every_steps=3", "training.epochs=2")
    whole = run("whole", *often)
    run("stopped", *often, stop=5)
    stopped = run("stopped", *often, f"training.num_workers={workers}")
    assert metrics_of(stopped) == metrics_of(whole)
    mine, theirs = files_of(stopped), files_of(whole)
    del mine["config.yaml"], theirs["config.yaml"]
    assert mine == theirs


def test_what_a_run_says_and_keeps_and_what_becomes_of_it(directory, capsys):
    assert main(["train", "chat.yaml", "--run-dir", "run"]) == 0
    said = capsys.readouterr().out
    assert "format    messages; chat template of the tokenizer" in said
    assert "packing   " in said
    assert "sample, drawn with the written model:" in said
    shutil.rmtree(directory / "tokenizer")
    (directory / "chat.jsonl").unlink()
    assert main(["generate", "run", "--chat", "--prompt", "what is 3 and 3", "--max-tokens", "4"]) == 0
    (directory / "new.jsonl").write_text(json.dumps({"messages": turns("what is 2 and 2")}) + "\n")
    assert main(["predict", "run", "new.jsonl", "--out", "answers.jsonl"]) == 0
    (answer,) = [json.loads(it) for it in (directory / "answers.jsonl").read_text().splitlines()]
    assert {*answer} == {"name", "answer"}
    assert answer["name"] == "new.jsonl:1"
    (directory / "other.yaml").write_text(
        "{type: Chat, path: new2.jsonl, tokenizer: gone, max_length: 80, packing: true}\n"
    )
    write_lines(directory / "new2.jsonl", [{"messages": it} for it in conversations(8)])
    capsys.readouterr()
    assert main(["evaluate", "run", "--data", "other.yaml"]) == 0
    assert "loss" in capsys.readouterr().out


def test_a_model_that_leaks_is_refused_before_anything_is_written(directory, capsys):
    model = "model={type: LstmLm, vocab_size: 300, d_model: 8, d_hidden: 8}"
    assert main(["train", "chat.yaml", "--run-dir", "run", "--set", model]) == 2
    assert "LstmLm can't be trained on packed documents: it takes no positions" in capsys.readouterr().err
    assert not (directory / "run").exists()
    assert main(["check", "chat.yaml", "--set", model]) == 2


@pytest.mark.slow
def test_a_run_answers_as_it_was_taught(directory):
    rows = [{"prompt": it, "completion": answer} for it, answer in (("how are you", "fine"), ("hello", "it is"))] * 20
    write_lines(directory / "chat.jsonl", rows)
    place = run("run", "training.epochs=12", "training.accumulation_steps=1", "model.d_model=32")
    loaded = load_run(place)
    codec = loaded.config.data.codec(loaded.facts, loaded.directory)
    prompts: Any = {"codec": codec, "input_ids": [codec.chat(turns(it)) for it in ("how are you", "hello")]}
    assert [it["answer"] for it in loaded.task.predict(loaded.model, prompts, {})] == ["fine", "it is"]


@pytest.mark.weekly  # compiles a model
def test_adapters_are_compiled_after_a_training_that_has_fused_the_class_of_their_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    llama(Path("base"), vocab_size=300)
    tokenizer_in(Path("base"))
    write_lines(Path("chat.jsonl"), [{"messages": turns(f"what is {it}", "it is fine")} for it in range(12)])
    base = "{type: Pretrained, path: base, fuse: FUSE}"
    adapters = f"{{type: LoRA, of: {base}, rank: 2, alpha: 4, dropout: 0}}".replace("FUSE", "false")
    data = "data: {type: Chat, path: chat.jsonl, tokenizer: base, max_length: 32}"
    rest = "\n".join([*YAML.splitlines()[3:6], "training: {epochs: 1, batch_size: 4, compile: COMPILE}", "device: cpu"])
    for name, model, compiles in (
        ("fused", base.replace("FUSE", "true"), "false"),
        ("plain", adapters, "false"),
        ("compiled", adapters, "true"),
    ):
        Path(f"{name}.yaml").write_text(f"{data}\nmodel: {model}\n{rest}\n".replace("COMPILE", compiles))
        assert main(["train", f"{name}.yaml"]) == 0
    losses = [[it["loss"] for it in metrics_of(Path("runs", name))] for name in ("plain", "compiled")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
