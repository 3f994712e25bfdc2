"""Adapters in peft's files: peft reads ours and we read peft's, with equal outputs in float64."""

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ArgumentError, ModuleTreeError, RecordFormatError, RecordIOError, RecordMismatchError
from burnlike.interop import load_adapter, merge_adapters, save_adapter
from burnlike.interop.adapters.adding import AdapterOptions, add_adapters
from burnlike.interop.adapters.layers import select

OPTIONS = AdapterOptions(rank=2, alpha=6)


class Network(nn.Module):
    """An embedding whose table also gives the result, and linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 6)
        self.layers = nn.ModuleList([nn.ModuleDict({"up": nn.Linear(6, 8), "down": nn.Linear(8, 6)}) for _ in range(3)])
        self.head = nn.Linear(6, 10, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        for layer in self.layers:
            x = x + layer["down"](layer["up"](x).relu())  # pyright: ignore[reportIndexIssue]
        return self.head(x)


def network(targets: Any = ("up", "table"), *, dora: bool = False, saved: tuple[str, ...] = ()) -> Network:
    torch.manual_seed(0)
    model = Network().double()
    options = OPTIONS._replace(dora=dora)
    add_adapters(model, dict.fromkeys(select(model, targets, saved=saved).values(), options), saved)
    return model


def changed(model: nn.Module) -> None:
    """Give what is trained other values."""
    torch.manual_seed(5)
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.requires_grad:
                tensor.add_(torch.randn_like(tensor) * 0.1)


TOKENS = torch.tensor([[1, 4, 9], [0, 0, 7]])


@pytest.mark.parametrize("dora", [False, True])
def test_adapters_are_saved_read_and_merged(tmp_path: Path, dora: bool) -> None:
    model, base = network(dora=dora, saved=("layers.2",)), network(("up",))
    merge_adapters(base)  # that of before the adapters
    assert torch.allclose(model(TOKENS), base(TOKENS), rtol=1e-13, atol=0)
    changed(model)
    save_adapter(model, tmp_path, base="a/model", task_type="CAUSAL_LM")
    assert json.loads((tmp_path / "adapter_config.json").read_text())["base_model_name_or_path"] == "a/model"
    load_adapter(base, tmp_path)
    expected = model(TOKENS)
    assert torch.equal(base(TOKENS), expected)
    trained = [name for name, it in base.named_parameters() if it.requires_grad]
    assert trained == [name for name, it in model.named_parameters() if it.requires_grad]
    assert torch.allclose(merge_adapters(base)(TOKENS), expected, rtol=1e-12, atol=1e-13)
    assert base.head.weight is not base.table.weight  # which alone had an adapter


def test_the_least_that_says_which_layers_is_written(tmp_path: Path) -> None:
    model = Network()
    layers = select(model, ("up", "down"))
    some = {it: OPTIONS if "down" in path else OPTIONS._replace(rank=3, alpha=5) for path, it in layers.items()}
    first = layers["layers.0.up"]
    add_adapters(model, {it: options for it, options in some.items() if it != first})
    changed(model)
    save_adapter(model, tmp_path)
    said = json.loads((tmp_path / "adapter_config.json").read_text())
    assert "layers\\.1\\.up" in said["target_modules"]
    assert said["r"] == 2
    assert said["lora_alpha"] == 6
    assert list(said["rank_pattern"].values()) == [3, 3]
    assert list(said["alpha_pattern"].values()) == [5, 5]
    torch.manual_seed(0)
    other = Network()
    other.load_state_dict(dict(merge_adapters(copy.deepcopy(model)).state_dict().items()))
    load_adapter(other, tmp_path)
    assert [name for name, _ in other.named_parameters()] == [name for name, _ in model.named_parameters()]


def test_layers_are_chosen_as_peft_chooses_them() -> None:
    model = Network()
    assert [*select(model, "all-linear")] == [f"layers.{i}.{name}" for i in range(3) for name in ("up", "down")]
    assert [*select(model, ("up",), layers=[1], patterns=["layers"])] == ["layers.1.up"]
    assert [*select(model, ("up",), exclude=("layers.0.up",))] == ["layers.1.up", "layers.2.up"]
    assert [*select(model, r"layers\.[01]\.(up|down)")] == [f"layers.{i}.{it}" for i in (0, 1) for it in ("up", "down")]
    with pytest.raises(ModuleTreeError, match="no layer 'upp'; did you mean 'up'"):
        select(model, ("up", "upp"))
    with pytest.raises(
        ModuleTreeError, match=r"'layers\.0' is a ModuleDict, which takes no adapter; there are table, up"
    ):
        select(model, ("0",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lora_bias": True}, "lora_bias: 'True' is not known here"),
        *(({"peft_type": it}, f"peft_type: expected LORA, got '{it}'") for it in ("IA3", "VERA", "LOHA")),
        ({"bias": "some"}, "bias: expected none, all, lora_only, got 'some'"),
        ({"init_lora_weights": "pissa"}, "changes the weights of the base"),
        ({"trainable_token_indices": [-1]}, "trainable_token_indices: expected numbers of tokens"),
        ({"r": 0}, "r: expected a whole number > 0, got 0"),
        ({"r": "8"}, "r: expected int, got '8'"),
        ({"use_dora": 1}, "use_dora: expected bool"),
        ({"lora_dropout": 1.5}, "lora_dropout: expected a share"),
        ({"target_modules": "(up"}, "target_modules: expected a regular expression"),
        ({"target_modules": "(" * 5000 + ")" * 5000}, "target_modules: expected a regular expression"),
        ({"target_modules": "(" * 60 + ")" * 60}, "at most 40 groups in one another"),
        ({"layers_to_transform": [0], "layers_pattern": ["(a"]}, "layers_pattern: expected a regular expression"),
        ({"rank_pattern": {"(up": 2}}, "rank_pattern: expected a regular expression"),
        ({"rank_pattern": {f"{it}": 2 for it in range(5000)}}, "rank_pattern: expected at most 4096 patterns"),
        ({"alpha_pattern": {"up": 10**400}}, "alpha_pattern.up: expected a number <="),
        ({"r": 10**400}, "r: expected a whole number <= 1073741824, got 1000"),
        ({"lora_alpha": 10**400}, "lora_alpha: expected a number <="),
        ({"lora_alpha": float("nan")}, "lora_alpha: expected a number > 0, got nan"),
        ({"ensure_weight_tying": 1}, "ensure_weight_tying: expected bool"),
        ({"\x1b[2J": 1}, "x1b"),
        ({"target_modules": []}, "expected the layers"),
        ({"rank_pattern": {"up": 2.5}}, "rank_pattern.up: expected a whole number"),
        ({"something_new": [3]}, "something_new"),
    ],
)
def test_what_is_not_known_is_refused_by_name(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    model = network()
    save_adapter(model, tmp_path)
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(RecordFormatError) as error:
        load_adapter(network(), tmp_path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_modules": "(([a-z._0-9])+)+!"}, "no layer '(([a-z._0-9])+)+!'"),
        ({"exclude_modules": "((.*)*)*!"}, ""),
        ({"rank_pattern": {"(([a-z._0-9])+)+!": 9}}, ""),
        ({"layers_to_transform": [0], "layers_pattern": "(.*)*(.*)*(.*)*!"}, "no layer"),
        ({"target_modules": [f"x{it}" for it in range(100_000)]}, "no layer 'x0'"),
        ({"r": 30_000_000}, "expected 'base_model.model.layers.0.up.lora_A.weight' of [30000000, 6], got [2, 6]"),
        ({"rank_pattern": {"up": 30_000_000}}, "of [30000000, 6], got [2, 6]"),
    ],
)
def test_no_config_takes_time_or_memory(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    model = network(("up",))
    changed(model)
    save_adapter(model, tmp_path)
    path, before = tmp_path / "adapter_config.json", time.perf_counter()
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    other = Network().double()
    if not message:
        load_adapter(other, tmp_path)
    else:
        with pytest.raises((ModuleTreeError, RecordMismatchError)) as error:
            load_adapter(other, tmp_path)
        assert message in str(error.value)
        assert all(it.requires_grad for it in other.parameters())  # as it was
        assert len([*other.parameters()]) == 13
    assert time.perf_counter() - before < 5


def test_files_of_other_adapters_change_nothing(tmp_path: Path) -> None:
    model = network()
    changed(model)
    save_adapter(model, tmp_path)
    other = network(("up",))
    before = other(TOKENS)
    with pytest.raises(ModuleTreeError, match="'table' has none in the model"):
        load_adapter(other, tmp_path)
    longer = Network()
    longer.table = nn.Embedding(12, 6)
    with pytest.raises(RecordMismatchError, match="lora_embedding_A"):
        load_adapter(longer, tmp_path)
    assert torch.equal(other(TOKENS), before)
    (tmp_path / "adapter_model.safetensors").rename(tmp_path / "adapter_model.bin")
    with pytest.raises(RecordIOError, match="is a pickle, which is not read"):
        load_adapter(network(), tmp_path)
    with pytest.raises(ModuleTreeError, match="has no adapters"):
        save_adapter(Network(), tmp_path / "none")
    with pytest.raises(ModuleTreeError, match="has a parametrized weight already"):
        add_adapters(model, dict.fromkeys(select(model, ("up",)).values(), OPTIONS))
    model.layers[0]["down"].bias.requires_grad_(True)  # pyright: ignore[reportIndexIssue]
    with pytest.raises(ModuleTreeError, match=r"'layers\.0\.down\.bias' is trained"):
        save_adapter(model, tmp_path / "some")


def test_a_table_with_max_norm_takes_no_adapter() -> None:
    model = nn.Sequential(nn.Embedding(4, 4, max_norm=1.0))
    with pytest.raises(ArgumentError, match="max_norm"):
        add_adapters(model, dict.fromkeys(select(model, ("0",)).values(), OPTIONS))


class Case(NamedTuple):
    make: Callable[[Any], Any]
    targets: list[str]
    saved: list[str]
    task: str


SIZES = {"vocab_size": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
BERT = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
CASES = {
    "llama": Case(
        lambda it: it.LlamaForCausalLM(it.LlamaConfig(**SIZES, **BERT, num_key_value_heads=2)),
        ["q_proj", "v_proj", "embed_tokens"], [], "CAUSAL_LM",
    ),
    "gpt2": Case(
        lambda it: it.GPT2LMHeadModel(it.GPT2Config(n_embd=32, n_layer=2, n_head=4, **SIZES)),
        ["c_attn", "wte"], [], "CAUSAL_LM",
    ),
    "bert": Case(
        lambda it: it.BertForSequenceClassification(it.BertConfig(**SIZES, **BERT)),
        ["query", "value"], ["classifier"], "SEQ_CLS",
    ),
    "t5": Case(
        lambda it: it.T5ForConditionalGeneration(it.T5Config(**SIZES, **T5)),
        ["q", "v", "wo"], [], "SEQ_2_SEQ_LM",
    ),
}  # fmt: skip


def logits(model: Any, name: str) -> Tensor:
    torch.manual_seed(3)
    tokens = torch.randint(3, 64, (2, 8))
    return model(input_ids=tokens, **({"decoder_input_ids": tokens} if name == "t5" else {})).logits


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of peft
@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_peft_reads_ours_and_we_read_pefts(tmp_path: Path, name: str, dora: bool) -> None:
    import peft
    import transformers

    make, targets, saved, task = CASES[name]
    torch.manual_seed(0)
    base = make(transformers).double().eval()
    ours = copy.deepcopy(base)
    options = AdapterOptions(4, 8, 0.1, dora)
    add_adapters(ours, dict.fromkeys(select(ours, targets).values(), options), saved)
    changed(ours)
    save_adapter(ours.eval(), tmp_path / "ours", task_type=task)
    theirs = peft.PeftModel.from_pretrained(copy.deepcopy(base), tmp_path / "ours").eval()
    assert (logits(theirs, name) - logits(ours, name)).abs().max() < 1e-12

    more = {"rank_pattern": {targets[0]: 2}, "alpha_pattern": {targets[1]: 3}, "use_rslora": True, "use_dora": dora}
    config = peft.LoraConfig(r=4, target_modules=targets, task_type=task, modules_to_save=[*saved] or None, **more)
    theirs = peft.get_peft_model(copy.deepcopy(base), config).eval()
    changed(theirs)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    ours = copy.deepcopy(base)
    load_adapter(ours, tmp_path / "theirs")
    expected = logits(theirs, name)
    assert (logits(ours.eval(), name) - expected).abs().max() < 1e-12
    assert (logits(merge_adapters(ours), name) - expected).abs().max() < 1e-12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of peft
@pytest.mark.parametrize("dora", [False, True])
def test_gradients_with_dropout_are_pefts(tmp_path: Path, dora: bool) -> None:
    import peft

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4, bias=False)).double()
    config = peft.LoraConfig(r=2, lora_alpha=6, lora_dropout=0.4, target_modules=["0", "2"], use_dora=dora)
    theirs: Any = peft.get_peft_model(copy.deepcopy(model), config)
    changed(theirs)
    theirs.save_pretrained(str(tmp_path))
    load_adapter(model, tmp_path)
    x = torch.randn(5, 6, dtype=torch.float64)
    results: list[Tensor] = []
    for one in (theirs, model):
        torch.manual_seed(1)
        results.append(one.train()(x))
        results[-1].square().sum().backward()
    assert (results[0] - results[1]).abs().max() < 1e-12
    theirs_and_ours = [[it.grad for it in one.parameters() if it.requires_grad] for one in (theirs, model)]
    for expected, grad in zip(*theirs_and_ours, strict=True):
        assert ((grad.mT if grad.dim() == 2 else grad) - expected).abs().max() < 1e-12
