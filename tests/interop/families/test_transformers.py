"""Fused models of each family of transformers, torchvision and timm: outputs, losses and packed documents."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.models.auto import configuration_auto, modeling_auto

from burnlike.errors import ConfigError
from burnlike.train import SequenceToSequence, next_token_loss
from burnlike.train.tasks.token_batches import arguments_of, expect_apart

from .comparing import NOT_IN_BFLOAT16, compare
from .support import FAMILIES, NOT_TINY, ops_of, rows_of
from .sweep import FOLDER
from .tiny_transformers import NotTiny, families, tiny_model

FAST = ("gemma2", "glm4")
# In `make test-slow`; the others are in `make test-families`.
A_DOZEN = frozenset(
    """bert clip_vision_model deepseek_v3 gemma3_text gpt2 llama mixtral modernbert olmo2 pixtral seed_oss t5gemma
    vit""".split()  # noqa: SIM905
)


def _marks(family: str) -> Any:
    return () if family in FAST else pytest.mark.slow if family in A_DOZEN else pytest.mark.families


@pytest.mark.parametrize(
    "family",
    [pytest.param(it, marks=_marks(it)) for it in families()],
)
def test_a_fused_model_computes_what_the_stock_one_does(family: str) -> None:
    if family in NOT_TINY:
        with pytest.raises(NotTiny, match=NOT_TINY[family]):
            tiny_model(family)
    else:
        report, _ = compare(*tiny_model(family), bfloat16=family not in NOT_IN_BFLOAT16)
        assert ops_of(report) == rows_of(FAMILIES.read_text())[family], "run `make fuse-support`"


def test_the_page_has_every_family() -> None:
    assert sorted(rows_of(FAMILIES.read_text())) == families()


REFUSED = {"nllb-moe"}
"""Encoders and decoders with experts, whose own loss weighs several terms."""
ADDING = {"bamba", "granitemoe", "jetmoe", "mixtral", "olmoe", "phimoe", "qwen2_moe", "qwen3_moe"}
"""Some that add a term: the test would be empty without them."""


def adds(config: Any) -> bool:
    """True if the config of a family, or of its text, can ask for a loss beside cross-entropy."""
    text = config.get_text_config()
    return any(hasattr(it, name) for it in (config, text) for name in ("output_router_logits", "z_loss_coefficient"))


def ask(model: Any) -> None:
    for config in {id(it): it for it in (model.config, model.config.get_text_config())}.values():
        if hasattr(config, "output_router_logits"):
            config.output_router_logits = True
    if hasattr(model, "z_loss_coefficient"):
        model.z_loss_coefficient = 0.01


@pytest.mark.families
def test_the_loss_of_a_training_is_that_of_the_model():
    added, refused, different = set(), set(), {}
    for family in families():
        kind = configuration_auto.CONFIG_MAPPING[family]
        is_decoder = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING.get(kind, None) is not None
        is_pair = modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING.get(kind, None) is not None
        if not (is_decoder or is_pair):
            continue
        try:
            model, _ = tiny_model(family)
        except NotTiny:
            continue
        if not adds(model.config):
            continue
        ask(model)
        model.train()
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        tokens = torch.randint(4, 60, (2, 9), generator=torch.Generator().manual_seed(2))
        batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}
        try:
            torch.manual_seed(4)
            own = model(**batch)
        except Exception:  # of a foreign model, such as one whose few layers have no experts
            own = None
        if own is None and not is_pair:
            continue
        try:
            torch.manual_seed(4)
            step = next_token_loss if is_decoder else SequenceToSequence().train_step
            found = step(model, batch).loss
        except ConfigError as error:
            refused.add(family if "beside cross-entropy" in str(error) else f"{family}: {error}")
            continue
        if own is None:
            continue
        logits, targets = (own.logits[:, :-1], tokens[:, 1:]) if is_decoder else (own.logits, tokens)
        plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        if not torch.allclose(found, own.loss, rtol=1e-4, atol=1e-4):
            different[family] = float(found.detach()), float(own.loss.detach()), float(plain.detach())
        if abs(float((own.loss - plain).detach())) > 1e-3:
            added.add(family)
    assert different == {}
    assert refused == REFUSED
    assert added >= ADDING


REFUSED_PACKED = Path(__file__).with_name("not_packed.txt")
SIZES = (7, 4, 9)


@pytest.mark.families
def test_the_trial_of_packing_says_of_every_family_what_is_true():
    refused = []
    for family in families():
        config = configuration_auto.CONFIG_MAPPING[family]
        if modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING.get(config, None) is None:
            continue
        try:
            model, _ = tiny_model(family)
        except NotTiny:
            continue
        try:
            expect_apart(
                model, {"input_ids": torch.randint(4, 60, (1, 30), generator=torch.Generator().manual_seed(2))}
            )
        except ConfigError as error:
            refused.append(f"{family}: {str(error).split(': ')[1].split(';')[0]}")
            continue
        assert _difference(model) < 1e-4, family
    assert refused == REFUSED_PACKED.read_text().splitlines()


@torch.no_grad()
def _difference(model) -> float:
    """How far the logits of packed documents are from those of each alone, relative to the largest."""
    model.eval()
    tokens = torch.randint(4, 60, (sum(SIZES),), generator=torch.Generator().manual_seed(3))
    positions = torch.cat([torch.arange(it) for it in SIZES])
    packed = _logits(model, {"input_ids": tokens[None], "position_ids": positions[None]})
    alone = torch.cat([_logits(model, {"input_ids": it[None]}) for it in tokens.split(SIZES)])
    return ((packed - alone).abs().max() / alone.abs().max()).item()


def _logits(model, inputs) -> torch.Tensor:
    positional, named = arguments_of(model, inputs)
    return model(*positional, **named).logits[0]


MODELS = Path(__file__).with_name("models.txt").read_text().split()
MEMBERS = [
    *("mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "googlenet", "swin_t", "swin_v2_t", "convnext_tiny"),
    *("timm/beit_base_patch16_224", "timm/mixnet_s", "timm/resnetv2_18", "timm/nf_seresnet26", "timm/pvt_v2_b0"),
    "timm/tnt_s_patch16_224",
]
TOGETHER = 10


def sweep(*names: str) -> str:
    """What the sweep of these models prints."""
    command = [sys.executable, "-m", "tests.interop.families.sweep", *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER.parents[1], check=False)
    assert done.returncode == 0, "\n".join(part[-4000:] for part in (done.stdout, done.stderr))
    return done.stdout


def groups() -> list[list[str]]:
    return [MODELS[begin : begin + TOGETHER] for begin in range(0, len(MODELS), TOGETHER)]


@pytest.mark.families
@pytest.mark.parametrize("names", groups(), ids=lambda names: names[0])
def test_a_step_of_training_and_back(names: list[str]) -> None:
    assert sweep(*names).count(": ok, ") == len(names)


@pytest.mark.families
def test_no_classifier_of_torchvision_is_left_out() -> None:
    assert sweep("list").split() == [name for name in MODELS if "/" not in name]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(MEMBERS[:7], marks=pytest.mark.weekly, id="torchvision"),
        pytest.param(MEMBERS[7:], marks=pytest.mark.weekly, id="timm"),
    ],
)
def test_members_of_families(names: list[str]) -> None:
    assert sweep(*names).count(": ok, ") == len(names)


KNOWN_WEIGHTS = {"self.router_aux_loss_coef", "self.aux_loss_coef", "self.config.text_config.router_aux_loss_coef"}


def test_every_weight_of_the_balance_of_experts_is_known():
    weights: dict[str, set[str]] = {}
    for path in Path(transformers.__file__).parent.glob("models/*/modeling_*.py"):
        for weight in re.findall(r"loss \+?= (?:loss \+ )?([\w.]+) \* aux_loss", path.read_text()):
            weights.setdefault(weight, set()).add(path.parent.name)
    assert {*weights} == KNOWN_WEIGHTS
    assert {"mixtral", "qwen3_moe", "deepseek_v4", "gpt_oss"} <= weights["self.router_aux_loss_coef"]
