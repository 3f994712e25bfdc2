"""transformers' families that have a table: tiny models of each, and what a change of a config does to both sides."""

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from burnlike.errors import BurnlikeError
from burnlike.models import load_pretrained
from tests.models.exact import in_float64, with_tables_in_float64

from .changes import BESIDE, values_of

TOKENS = torch.randint(1, 17, (2, 12), generator=torch.Generator().manual_seed(1))
IMAGES = torch.randn(2, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Inputs = Mapping[str, Any]

_DECODER: dict[str, Any] = {
    "vocab_size": 17,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
}
_VISION = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
_BERT = {**_VISION, "vocab_size": 17, "max_position_embeddings": 12, "type_vocab_size": 3}
_T5_SIZES = {"vocab_size": 17, "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 2}
_T5 = {**_T5_SIZES, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}


@dataclass(frozen=True)
class Family:
    """One of transformers' families.

    Attributes:
        models: names of the classes that a file can be of.
        config: the name of its config's class.
        sizes: of the config, tiny.
        inputs: of a model.
    """

    models: tuple[str, ...]
    config: str
    sizes: Mapping[str, Any]
    inputs: Inputs = field(default_factory=lambda: {"input_ids": TOKENS})

    def made(self, model: str, **changes: Any) -> Any:
        """transformers' model in float64 with weights so large that attention is not even."""
        kind = getattr(transformers, model)
        torch.manual_seed(0)
        theirs = kind(getattr(transformers, self.config)(**{**self.sizes, **changes})).double().eval()
        for name, tensor in theirs.state_dict().items():
            if tensor.is_floating_point():
                tensor.add_((0.2 if "var" in name else 0.4) * torch.rand_like(tensor))
        return theirs


def _causal(name: str, **sizes: Any) -> Family:
    return Family((f"{name}ForCausalLM", f"{name}Model"), f"{name}Config", {**_DECODER, **sizes})


_IMAGE_NET = {"hidden_sizes": [4, 8], "depths": [1, 2]}
FAMILIES = {
    "llama": _causal("Llama"),
    "mistral": _causal("Mistral"),
    "mixtral": _causal("Mixtral", num_local_experts=4),
    "qwen2": _causal("Qwen2"),
    "qwen3": _causal("Qwen3", head_dim=8),
    "gpt2": Family(
        ("GPT2LMHeadModel", "GPT2Model"),
        "GPT2Config",
        {"vocab_size": 17, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32},
    ),
    "bert": Family(
        ("BertForMaskedLM", "BertModel", "BertForSequenceClassification", "BertForPreTraining"), "BertConfig", _BERT
    ),
    "t5": Family(
        ("T5ForConditionalGeneration",), "T5Config", _T5, {"input_ids": TOKENS, "decoder_input_ids": TOKENS[:, :7]}
    ),
    "vit": Family(
        ("ViTForImageClassification", "ViTModel"),
        "ViTConfig",
        {**_VISION, "image_size": 32, "patch_size": 8},
        {"pixel_values": IMAGES},
    ),
    "convnext": Family(
        ("ConvNextForImageClassification", "ConvNextModel"),
        "ConvNextConfig",
        {**_IMAGE_NET, "num_stages": 2},
        {"pixel_values": IMAGES},
    ),
    "resnet": Family(
        ("ResNetForImageClassification", "ResNetModel"),
        "ResNetConfig",
        {**_IMAGE_NET, "embedding_size": 4},
        {"pixel_values": IMAGES},
    ),
}


def expect_same(ours: Any, theirs: Any, inputs: Inputs) -> None:
    """Expect ours to give what theirs does."""
    assert not ours.training
    with torch.no_grad(), in_float64():
        is_exact = next(ours.parameters()).dtype == torch.float64
        found = (with_tables_in_float64(ours) if is_exact else ours)(*_of_type(inputs, ours))
        expected = theirs(**inputs, return_dict=True)
        for got, wanted in _pairs(found, expected, theirs):
            if wanted.isfinite().all():
                error = (got - wanted).abs().max().item() / (1 + wanted.abs().max().item())
                assert got.shape == wanted.shape, f"{got.shape} for {wanted.shape}"
                assert error < (1e-10 if is_exact else 0.1), f"{error} off"


def _of_type(inputs: Inputs, model: Any) -> list[Tensor]:
    dtype = next(model.parameters()).dtype
    return [it.to(dtype) if it.is_floating_point() else it for it in inputs.values()]


def _pairs(found: Any, expected: Any, theirs: Any) -> Iterator[tuple[Tensor, Tensor]]:
    kind = type(theirs).__name__
    if kind == "BertModel":
        yield from ((found.hidden, expected.last_hidden_state), (found.pooled, expected.pooler_output))
    elif kind == "BertForPreTraining":
        yield found, expected.prediction_logits
    elif kind == "ViTModel":
        yield found, expected.last_hidden_state[:, 0]
    elif kind in ("ConvNextModel", "ResNetModel"):
        yield found, expected.pooler_output.flatten(1)
    else:
        yield found, expected.logits if hasattr(expected, "logits") else expected.last_hidden_state


@dataclass(frozen=True)
class Case:
    """A model, and a key of its config that has another value.

    Attributes:
        family: of the model.
        model: the name of its class.
        key: of the config.
        value: at the key.
        is_made: whether weights are made for it; else the file of a model is changed.
    """

    family: Family
    model: str
    key: str
    value: Any
    is_made: bool

    def __str__(self) -> str:
        return f"{self.model}{' made with' if self.is_made else ','} {self.key}: {self.value!r}"

    def run(self, directory: Path) -> str:
        """Whether ours is the `same` or `refused`; `none` where transformers has no such model itself.

        Args:
            directory: empty, or that of the case before of the same family and kind.
        """
        refusal = self._edit(directory) if not self.is_made else None
        if refusal is not None and self.is_named_in(refusal):
            return "refused"
        try:
            with in_float64():
                theirs = self._made(directory) if self.is_made else self._read(directory)
                if "Mixtral" in self.model:
                    theirs.set_experts_implementation("eager")  # the others have no float64
                inputs = dict(zip(self.family.inputs, _of_type(self.family.inputs, theirs), strict=True))
                theirs(**inputs)
        except Exception:  # whatever it raises
            return "none"
        try:
            ours = load_pretrained(directory)
        except BurnlikeError as error:
            refusal = str(error)
        else:
            expect_same(ours, theirs, inputs)
            return "same"
        assert self.is_named_in(refusal), f"{self} is not named in: {refusal}"
        return "refused"

    def is_named_in(self, message: str) -> bool:
        """Whether a message names the key, one within its value, the field that is made of it, or other weights."""
        within = self.value if isinstance(self.value, dict) else ()
        return any(it in message for it in (self.key, *within, "Config: ", "Scaling: ", "does not fit"))

    def _made(self, directory: Path) -> Any:
        theirs = self.family.made(self.model, **{self.key: copy.deepcopy(self.value)})
        theirs.save_pretrained(directory)
        return theirs

    def _edit(self, directory: Path) -> str | None:
        """Change the file; returns why ours refuses it."""
        original = directory / "original.json"
        if not original.exists():
            with in_float64():
                self.family.made(self.model).save_pretrained(directory)
            (directory / "config.json").rename(original)
        values = json.loads(original.read_text())
        values = {key: it for key, it in {**values, self.key: self.value}.items() if it != REMOVED}
        (directory / "config.json").write_text(json.dumps(values))
        try:
            load_pretrained(directory)
        except BurnlikeError as error:
            return str(error)
        return None

    def _read(self, directory: Path) -> Any:
        theirs, report = getattr(transformers, self.model).from_pretrained(directory, output_loading_info=True)
        if report["missing_keys"] or report["mismatched_keys"]:
            raise ValueError("random weights")
        return theirs


REMOVED = "removed"


def cases(name: str) -> Iterator[Case]:
    """Each field of the config changed, with weights made for it; then each key of a file changed, added, removed."""
    family = FAMILIES[name]
    kind = getattr(transformers, family.config)
    keys = [it.name for it in dataclasses.fields(kind)]
    for model in family.models:
        for key in keys:
            for value in values_of(key, family.sizes.get(key, getattr(kind(), key))):
                yield Case(family, model, key, value, is_made=True)
    values = json.loads(kind(**family.sizes).to_json_string(use_diff=False))
    for key in dict.fromkeys((*values, *keys, *BESIDE)):
        for value in (*values_of(key, values.get(key)), *([REMOVED] if key in values else [])):
            yield Case(family, family.models[0], key, value, is_made=False)
