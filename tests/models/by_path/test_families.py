"""Every family of transformers that has a tiny model: a directory of it gives what transformers reads from it."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.models.auto import configuration_auto

from burnlike.models import PretrainedConfig, save_for_transformers
from burnlike.models.by_path.catalog import catalog

from ...interop.families.tiny_transformers import VARIANTS, inputs_of, tiny_config

HEADS = ("SequenceClassification", "CausalLM", "TokenClassification", "MaskedLM", "Seq2SeqLM", "ImageClassification")
HEADS += ("SemanticSegmentation",)
A_DOZEN = frozenset(["bert", "gpt2", "llama", "mixtral", "t5", "vit", "deberta-v2", "electra", "qwen3", "resnet"])
_LARGEST = 4_000_000


def _cases() -> list[Any]:
    known, cases = catalog(), []
    for family in sorted(configuration_auto.CONFIG_MAPPING_NAMES):
        for head in HEADS:
            if family in known.heads[head]:
                mark = pytest.mark.slow if family in A_DOZEN else pytest.mark.families
                cases.append(pytest.param(family, head, marks=mark))
    return cases


def _tiny(family: str, head: str, directory: Path) -> bool:
    """Save a tiny model of a family with a head; whether there is one."""
    config_class: Any = configuration_auto.CONFIG_MAPPING[family]
    auto: Any = getattr(transformers, f"AutoModelFor{head}")
    for variant in VARIANTS:
        try:
            config = tiny_config(config_class, variant)
            with torch.device("meta"):
                size = sum(it.numel() for it in auto.from_config(config).parameters())
            if size > _LARGEST:
                continue
            torch.manual_seed(0)
            auto.from_config(config).save_pretrained(directory)
        except Exception:  # foreign code refuses sizes in many ways
            continue
        return True
    return False


def _logits(model: Any) -> torch.Tensor | None:
    """What the model gives for the first inputs that it takes."""
    with torch.no_grad():
        for inputs in inputs_of(model):
            torch.manual_seed(1)
            try:
                return model.eval()(**inputs).logits
            except Exception:  # of a foreign model, which says in many ways that an input is not its own
                continue
    return None


@pytest.mark.parametrize(("family", "head"), _cases())
def test_it_is_the_model_that_transformers_reads(family: str, head: str, tmp_path: Path) -> None:
    if not _tiny(family, head, tmp_path / "one"):
        pytest.skip("has no tiny model")
    auto: Any = getattr(transformers, f"AutoModelFor{head}")
    try:
        described = transformers.AutoConfig.from_pretrained(tmp_path / "one")
        if head == "CausalLM" and getattr(described, "is_decoder", None) is False:
            described.is_decoder = True
        expected = auto.from_pretrained(tmp_path / "one", config=described)
    except ValueError as error:
        pytest.skip(f"transformers does not read it: {error}")
    task = "SequenceClassification" if head == "ImageClassification" else head
    model: Any = PretrainedConfig(path=str(tmp_path / "one")).for_task(task, None).init("cpu")
    assert type(model) is type(expected)
    theirs = expected.state_dict()
    assert model.state_dict().keys() == theirs.keys()
    for name, value in model.state_dict().items():
        assert torch.equal(value, theirs[name]), name
    buffers = dict(expected.named_buffers())
    for name, value in model.named_buffers():
        assert torch.equal(value, buffers[name]), name
    if (logits := _logits(expected)) is not None:
        torch.testing.assert_close(_logits(model), logits, equal_nan=True)
    save_for_transformers(model, tmp_path / "two")
    again = auto.from_pretrained(tmp_path / "two").state_dict()
    assert all(torch.equal(again[name], value) for name, value in theirs.items())
