"""Adapters of every causal language model that transformers makes tiny: peft reads ours and computes the same."""

import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from transformers.models.auto import configuration_auto

from burnlike.interop import save_adapter
from burnlike.interop.adapters.layers import adapted
from burnlike.models import LoRAConfig, PretrainedConfig
from burnlike.models.by_path.catalog import catalog

from ..families.tiny_transformers import VARIANTS, inputs_of, tiny_config

A_DOZEN = frozenset(["llama", "gpt2", "qwen3", "mixtral", "gemma2", "gpt_neox", "opt", "bloom", "phi3", "olmo2"])
_LARGEST = 4_000_000
pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),  # by peft
    pytest.mark.filterwarnings("ignore::UserWarning:peft"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:peft"),  # of targets that it looks for in experts
]


def _cases() -> list[Any]:
    families = sorted({*catalog().heads["CausalLM"]} & {*configuration_auto.CONFIG_MAPPING_NAMES})  # pyright: ignore[reportPrivateImportUsage]
    return [pytest.param(it, marks=pytest.mark.slow if it in A_DOZEN else pytest.mark.families) for it in families]


def _tiny(family: str, directory: Path) -> bool:
    """Save a tiny model of a family; whether there is one."""
    config_class: Any = configuration_auto.CONFIG_MAPPING[family]
    for variant in VARIANTS:
        try:
            config = tiny_config(config_class, variant)
            with torch.device("meta"):
                size = sum(it.numel() for it in transformers.AutoModelForCausalLM.from_config(config).parameters())
            if size > _LARGEST:
                continue
            torch.manual_seed(0)
            transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)
        except Exception:  # foreign code refuses sizes in many ways
            continue
        return True
    return False


def _logits(model: Any, inputs: Any) -> torch.Tensor:
    with torch.no_grad():
        torch.manual_seed(1)
        return model(**inputs).logits


def _takes(model: Any, inputs: Any) -> bool:
    try:
        _logits(model, inputs)
    except Exception:  # of a foreign model, which says in many ways that an input is not its own
        return False
    return True


@pytest.mark.parametrize("family", _cases())
def test_peft_computes_with_our_adapters_what_we_do(family: str, tmp_path: Path) -> None:
    if not _tiny(family, tmp_path / "base"):
        pytest.skip("has no tiny model")
    kind = json.loads((tmp_path / "base/config.json").read_text())["model_type"]
    if kind not in catalog().heads["CausalLM"]:
        pytest.skip(f"is saved as {kind}, which is part of others")
    base = PretrainedConfig(path=str(tmp_path / "base"), head="CausalLM", dtype="float64", fuse=True)
    config = LoRAConfig(of=base, rank=4, alpha=8.0, targets="all-linear")
    torch.manual_seed(0)
    ours: Any = config.init("cpu").eval()
    with torch.no_grad():
        for tensor in ours.parameters():
            if tensor.requires_grad:
                tensor.normal_(std=0.2)
    save_adapter(ours, tmp_path / "adapter")
    of_base = transformers.AutoConfig.from_pretrained(tmp_path / "base")
    if getattr(ours.config, "is_decoder", None) is not None:  # burnlike's causal language models are always decoders
        of_base.is_decoder = ours.config.is_decoder
    auto: Any = transformers.AutoModelForCausalLM
    try:
        plain: Any = auto.from_pretrained(tmp_path / "base", config=of_base, dtype=torch.float64).eval()
    except ValueError as error:
        pytest.skip(f"transformers does not read it: {error}")
    inputs = next((it for it in inputs_of(plain) if _takes(plain, it)), None)
    if inputs is None:
        pytest.skip("takes none of the known inputs")
    try:
        theirs: Any = peft.PeftModel.from_pretrained(plain, str(tmp_path / "adapter")).eval()
    except ValueError as error:
        if "Mamba" not in str(error):
            raise
        pytest.skip("peft adapts no layer whose weight a kernel reads, as that of Mamba does; ours adapts it")
    count = sum(name.endswith("lora_A") for name, _ in theirs.named_modules())
    if theirs.peft_config["default"].target_parameters and count < len(adapted(ours)):
        pytest.skip("peft takes the names of its dense layers for those of experts, and drops their adapters")
    try:
        expected = _logits(theirs.base_model.model, inputs)
    except AttributeError as error:
        if "'tuple' object" not in str(error):
            raise
        pytest.skip("peft adapts no layer that gives a tuple, as the router of Llama 4 does; ours adapts it")
    torch.testing.assert_close(_logits(ours, inputs), expected, rtol=1e-9, atol=1e-9, equal_nan=True)
