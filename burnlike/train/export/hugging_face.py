"""Models as directories that transformers loads: its own as it saves them, ours by the tables of weights."""

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._outputs import Output
from ...config.root_keys import Input
from ...data.chat.templates import TEMPLATE_NAME
from ...errors import BurnlikeError
from ...models import save_for_transformers, save_pretrained
from ...models.by_path.saving import copy_beside
from ...models.generation import stop_tokens
from .programs import proof, quiet
from .source import Source, example_of, may_vary, outputs_of, program_of

_TOKENIZER, _GENERATION = "tokenizer", "generation_config.json"
_NAMES = {
    "tokens": "input_ids",
    "token_types": "token_type_ids",
    "decoder_tokens": "decoder_input_ids",
    "x": "pixel_values",
}
"""What transformers calls the inputs of our models, where it calls them otherwise."""
_POOLED = ("resnet", "convnext")
"""Whose result without a head is pooled."""


def write_directory(source: Source, out: Path | Output, inputs: Sequence[Input] = ()) -> list[str]:
    """Write `config.json`, weights and the tokenizer, and compare what transformers computes where it is installed.

    Raises:
        ConfigError: transformers has no such model, or computes something else; nothing is written then.
    """
    with Output.of(out, "export").directory() as directory:
        is_theirs = callable(getattr(source.model, "save_pretrained", None))
        if is_theirs:
            save_for_transformers(source.model, directory, tokenizers_of(source))
        else:
            save_pretrained(source.model, directory, config=source.config, classes=source.classes)
            copy_beside(tokenizers_of(source), directory)
        keep_template(source, directory)
        lines = [f"hf        {out}, {_architecture(directory)}"]
        if find_spec("transformers") is None:
            return [*lines, "checked   no: transformers is not installed"]
        return lines + _checked(source, directory, inputs, is_theirs=is_theirs)


def tokenizers_of(source: Source) -> list[Path]:
    """The files of a tokenizer that the run keeps."""
    if source.run is None or not source.run.directory.is_dir():
        return []
    return sorted(it for it in source.run.directory.iterdir() if it.name.startswith(_TOKENIZER))


def keep_template(source: Source, directory: Path) -> None:
    """Write what a run of conversations says beside its tokenizer: the chat template, and what ends an answer."""
    run = source.run
    config: Any = None if run is None else run.config.data
    if run is None or not hasattr(config, "chat_template"):
        return
    codec: Any = config.codec(run.facts, run.directory)
    if config.chat_template is not None:
        (directory / TEMPLATE_NAME).write_text(codec.template.text, "utf-8")
    path = directory / _GENERATION
    generation = json.loads(path.read_text("utf-8")) if path.exists() else {}
    ends = [*stop_tokens(source.model, codec)]
    path.write_text(json.dumps({**generation, "eos_token_id": ends}, indent=2) + "\n", "utf-8")


def _architecture(directory: Path) -> str:
    return json.loads((directory / "config.json").read_text())["architectures"][0]


def _checked(source: Source, directory: Path, inputs: Sequence[Input], *, is_theirs: bool) -> list[str]:
    import transformers

    from ...models.by_path.build import quiet as quiet_transformers

    try:
        example = example_of(source, inputs)
    except BurnlikeError as error:
        return [f"checked   no: {' '.join(str(error).split())}"]
    with quiet(), quiet_transformers():
        loaded: Any = getattr(transformers, _architecture(directory)).from_pretrained(directory).eval()
    shown = {name: it for name, it in example.inputs.items() if is_theirs or name != "mask_pad"}
    program = program_of(_First(source.model), shown)
    is_pooled = loaded.config.model_type in _POOLED

    def run(inputs: Mapping[str, Tensor]) -> list[Tensor]:
        with torch.no_grad():
            output = loaded(**{(name if is_theirs else _NAMES.get(name, name)): it for name, it in inputs.items()})
        results = outputs_of(output)
        if is_theirs:
            return [*results.values()][:1]
        names = ("logits", "pooler_output" if is_pooled else "last_hidden_state")
        result = next(results[name] for name in names if name in results)
        return [result.reshape(program(**inputs)[0].shape)]

    return proof(program, shown, may_vary(shown), run, "transformers")


class _First(nn.Module):
    """A model of which only the first result counts: its logits, or its vectors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: Tensor) -> Tensor:
        return next(iter(outputs_of(self.model(**inputs)).values()))
