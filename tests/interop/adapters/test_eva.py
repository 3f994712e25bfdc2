"""Adapters that begin with the directions of their inputs, beside peft's `initialize_lora_eva_weights`."""

from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from torch import Tensor

from burnlike.errors import ArgumentError
from burnlike.interop import load_adapter, save_adapter, start_by_eva
from burnlike.interop.adapters.layers import adapted
from burnlike.models import LoRAConfig, PretrainedConfig
from burnlike.module import Eva

from ...models.by_path.directories import VOCABULARY, llama

pytestmark = pytest.mark.filterwarnings("ignore")  # of peft
TARGETS = ("q_proj", "k_proj", "o_proj", "down_proj")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    directory = llama(tmp_path_factory.mktemp("eva") / "base", tie_word_embeddings=False, **sizes)
    model: Any = transformers.LlamaForCausalLM.from_pretrained(directory)
    with torch.no_grad():  # inputs that vary in some directions more than in others, as those of trained models do
        scales = torch.logspace(0, -1.5, 16)
        model.model.embed_tokens.weight.copy_(torch.randn(VOCABULARY, 16) * scales)
        for name, it in model.named_parameters():
            if "proj" in name:
                it.mul_(torch.logspace(0.5, -1, len(it))[:, None] * 5)
    model.save_pretrained(directory)
    return directory


def batches(*, masked: bool = False) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(7)
    found = []
    for _ in range(6):
        tokens = torch.randint(0, VOCABULARY, (8, 24), generator=generator)
        attention = torch.ones_like(tokens)
        labels = tokens.clone()
        if masked:
            attention[::2, 18:] = 0
            labels[:, :5] = -100
        found.append({"input_ids": tokens, "attention_mask": attention, "labels": labels})
    return found


def counting(options: Eva) -> Any:
    def positions(batch: dict[str, Tensor]) -> Tensor:
        mask = batch["attention_mask"].bool()
        return mask & (batch["labels"] != -100) if options.use_label_mask else mask

    return positions


def model_of(base: Path, targets: tuple[str, ...] = TARGETS, *, fuse: bool = False, **options: Any) -> Any:
    of = PretrainedConfig(path=str(base), head="CausalLM", dtype="float32", fuse=fuse)
    return LoRAConfig(of=of, rank=3, alpha=6.0, targets=targets, start="eva", **options).init("cpu")


CASES = [
    {},
    {"rho": 1.0},
    {"rho": 1.7, "adjust_scaling_factors": False},
    {"whiten": True},
    {"use_label_mask": False, "tau": 0.9},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("rslora", [False, True])
def test_ranks_and_directions_are_those_of_peft(
    base: Path, tmp_path: Path, options: dict[str, Any], rslora: bool
) -> None:
    # peft 0.21 whitens in place, twice what q_proj and k_proj share.
    targets = tuple(it for it in TARGETS if it != "k_proj" or "whiten" not in options)
    config = peft.LoraConfig(
        r=3, lora_alpha=6, target_modules=[*targets], init_lora_weights="eva", use_rslora=rslora,
        eva_config=peft.EvaConfig(**options),
    )  # fmt: skip
    plain: Any = transformers.LlamaForCausalLM.from_pretrained(base)
    theirs: Any = peft.get_peft_model(plain, config)
    peft.initialize_lora_eva_weights(theirs, batches(masked=True), show_progress_bar=False)
    ours, eva = model_of(base, targets, rslora=rslora, fuse=rslora), Eva(**options)
    data = batches(masked=True)
    ranks = start_by_eva(ours, data, lambda it: ours.eval()(**it), eva, positions=counting(eva), rslora=rslora)
    layers = {
        name.removeprefix("base_model.model."): it for name, it in theirs.named_modules() if hasattr(it, "lora_A")
    }
    assert {path for path, rank in ranks.items() if rank} == {*layers} == {*adapted(ours)}
    for path, layer in layers.items():
        lora: Any = adapted(ours)[path].lora
        a = layer.lora_A["default"].weight
        assert ranks[path] == len(a) == lora.a.shape[1]
        torch.testing.assert_close(lora.a.mT, a, rtol=1e-3, atol=1e-4)
        assert not lora.b.any()
        assert lora.scale == pytest.approx(layer.scaling["default"])
    if options.get("rho") == 1.0:
        assert {*ranks.values()} == {3}
    elif "tau" not in options:
        assert len({*ranks.values()}) > 1
    with torch.no_grad():
        for layer in adapted(ours).values():
            layer.lora.b.normal_(std=0.1)  # pyright: ignore[reportOptionalMemberAccess]
    save_adapter(ours, tmp_path / "ours")
    again: Any = peft.PeftModel.from_pretrained(transformers.LlamaForCausalLM.from_pretrained(base), tmp_path / "ours")
    here = PretrainedConfig(path=str(base), head="CausalLM").init("cpu")
    load_adapter(here, tmp_path / "ours")
    tokens = batches()[0]["input_ids"]
    expected = ours.eval()(tokens).logits
    torch.testing.assert_close(again.eval()(tokens).logits, expected, rtol=1e-3, atol=2e-3)
    torch.testing.assert_close(here.eval()(tokens).logits, expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("options", "size", "message"),
    [
        (Eva(rho=6.0), 8, r"expected rank \* rho <= 16, the inputs of"),
        (Eva(rho=4.0), 0, "expected batches of 12 positions that count or more"),
        (Eva(tau=0.9999999), 8, "still turn after"),
    ],
)
def test_data_that_says_too_little_is_refused(
    base: Path, monkeypatch: pytest.MonkeyPatch, options: Eva, size: int, message: str
) -> None:
    monkeypatch.setattr("burnlike.interop.adapters.eva._MOST_BATCHES", 3)
    model = model_of(base).eval()
    before = {name: it.clone() for name, it in model.state_dict().items()}
    data = [{**it, "labels": it["labels"].index_fill(0, torch.arange(size, 8), -100)} for it in batches()]
    with pytest.raises(ArgumentError, match=message):
        start_by_eva(model, data, lambda it: model(**it), options, positions=counting(options))
    assert all(torch.equal(it, before[name]) for name, it in model.state_dict().items())
