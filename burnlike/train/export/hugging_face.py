"""Models as directories that transformers loads: its own as it saves them, ours by the tables of weights; and models
with adapters as plain ones, with the adapters added to the weights.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._atomic import replace_file
from ..._outputs import Output
from ...config.root_keys import Input
from ...data.chat.templates import TEMPLATE_NAME
from ...data.codec import SPECIAL_TOKENS, TextCodec
from ...data.texts.tokenizers import RowCodec
from ...errors import ArgumentError, BurnlikeError, ConfigError, ModuleTreeError, RecordMismatchError
from ...interop import load_adapter, merge_adapters
from ...interop.adapters.layers import adapted
from ...interop.adapters.peft_config import WEIGHTS_NAME, read_config
from ...models import PretrainedConfig, save_for_transformers, save_pretrained
from ...models.by_path.directory import CONFIG_NAME, GENERATION_NAME, OWN_NAME
from ...models.by_path.saving import copy_beside
from ...models.generation import stop_tokens
from ...record import Record, SafetensorsRecorder, open_record
from ..job.loaded_run import MODEL_NAME, LoadedRun
from ..job.run_config import place_of_run
from ..tasks.tokens import SequenceToSequence
from .programs import proof, quiet
from .source import Source, example_of, may_vary, outputs_of, program_of, source_of_run

_TOKENIZER = "tokenizer"
_NAMES = {
    "tokens": "input_ids",
    "token_types": "token_type_ids",
    "decoder_tokens": "decoder_input_ids",
    "x": "pixel_values",
}
"""What transformers calls the inputs of our models, where it calls them otherwise."""
_ADDS_TOKENS = ("TemplateProcessing", "BertProcessing", "RobertaProcessing")
"""The last steps of tokenizers that add special tokens to a text."""
_POOLED = ("resnet", "convnext")
"""Whose result without a head is pooled."""


def write_directory(source: Source, out: Path | Output, inputs: Sequence[Input] = ()) -> list[str]:
    """Write `config.json`, weights and the tokenizer, and compare what transformers computes where it is installed.

    Raises:
        ConfigError: transformers has no such model, or computes something else; nothing is written then.
    """
    with Output.of(out, "export").directory() as directory:
        is_theirs = fill_directory(source, directory)
        lines = [f"hf        {out}, {_architecture(directory)}"]
        if find_spec("transformers") is None:
            return [*lines, "checked   no: transformers is not installed"]
        return lines + _checked(source, directory, inputs, is_theirs=is_theirs)


def fill_directory(source: Source, directory: Path) -> bool:
    """Write what transformers reads into a directory; True if the model is one of transformers itself."""
    is_theirs = callable(getattr(source.model, "save_pretrained", None))
    if is_theirs:
        save_for_transformers(source.model, directory, tokenizers_of(source))
    else:
        # That of a directory says where the model was read; the model keeps its own.
        config = None if isinstance(source.config, PretrainedConfig) else source.config
        save_pretrained(source.model, directory, config=config, classes=source.classes)
        if (problem_type := getattr(source.task, "problem_type", None)) is not None:
            _add(directory / CONFIG_NAME, {"problem_type": problem_type})
        copy_beside(tokenizers_of(source), directory)
    keep_template(source, directory)
    if isinstance(source.task, SequenceToSequence):
        for name in (GENERATION_NAME,) if is_theirs else (GENERATION_NAME, CONFIG_NAME):
            _add(directory / name, source.task.tokens_of(source.model))
    return is_theirs


def _add(path: Path, values: Mapping[str, Any]) -> None:
    """Write values into a file of JSON, beside those that are there."""
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    replace_file(path, json.dumps({**before, **values}, indent=2).encode() + b"\n")


def tokenizers_of(source: Source) -> list[Path]:
    """The files of a tokenizer that the run keeps."""
    if source.run is None or not source.run.directory.is_dir():
        return []
    return sorted(path for path in source.run.directory.iterdir() if path.name.startswith(_TOKENIZER))


def keep_template(source: Source, directory: Path) -> None:
    """Write what a run says beside its tokenizer: the chat template, what ends an answer, and what texts begin with."""
    run = source.run
    config: Any = None if run is None else run.config.data
    is_chat = hasattr(config, "chat_template")
    if run is None or not (is_chat or tokenizers_of(source)):
        return
    codec: Any = config.codec(run.facts, run.directory)
    if not is_chat:
        if isinstance(codec, TextCodec):
            _keep_plain_texts(codec.tokenizer_content(), directory)
        elif isinstance(codec, RowCodec) and not (directory / "tokenizer_config.json").exists():
            # Without it transformers takes the tokenizer of the model's family, which reads no file of another kind.
            types = ["token_type_ids"] if len(config.columns) > 1 else []
            codec.tokenizer.save_pretrained(directory)
            _add(directory / "tokenizer_config.json", {"model_input_names": ["input_ids", "attention_mask", *types]})
        return
    if config.chat_template is not None:
        replace_file(directory / TEMPLATE_NAME, codec.template.text.encode())
    _add(directory / GENERATION_NAME, {"eos_token_id": [*stop_tokens(source.model, codec)]})


def _keep_plain_texts(content: Any, directory: Path) -> None:
    """Have transformers' tokenizer add no special tokens, since texts had none in training and have none here."""
    if content is None:
        return
    last: Any = content.get("post_processor") or {"type": _ADDS_TOKENS[0]}
    steps = [it for it in last.get("processors", [last]) if it["type"] not in _ADDS_TOKENS]
    content["post_processor"] = {"type": "Sequence", "processors": steps} if steps else None
    replace_file(directory / "tokenizer.json", json.dumps(content, ensure_ascii=False).encode())
    path = directory / "tokenizer_config.json"
    if not path.exists():
        # Without it transformers takes the tokenizer of Llama for one, whose token types `generate` refuses.
        special, pad = {it["content"] for it in content["added_tokens"]}, SPECIAL_TOKENS["pad"]
        options = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "attention_mask"]}
        options |= {"pad_token": pad} if pad in special else {}
        _add(path, options)


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
    shown = {name: value for name, value in example.inputs.items() if is_theirs or name != "mask_pad"}
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


_HEADS = {
    "CAUSAL_LM": "CausalLM",
    "SEQ_CLS": "SequenceClassification",
    "SEQ_2_SEQ_LM": "Seq2SeqLM",
    "TOKEN_CLS": "TokenClassification",
    "QUESTION_ANS": "QuestionAnswering",
}
"""By peft's `task_type` the end of the model, as transformers calls it; without one it is that of the directory."""


def merge_run(run: LoadedRun, out: Path | Output) -> list[str]:
    """Write the model of a run with its adapters added to its weights, and say what came of it.

    One of transformers becomes a directory that transformers loads, with the run's tokenizer, compared with what it
    computes there. One of ours becomes `model.safetensors` and the config `model.yaml`.

    Raises:
        ArgumentError: the model has no adapters.
    """
    out = Output.of(out, "merge")
    count = len(adapted(run.model))
    if not count:
        raise ArgumentError(f"{run.path}: expected a run of a model with adapters (`type: LoRA`), got one without")
    source = source_of_run(run)
    assert source.config is not None  # that of the run
    lines = [f"merged    {count} adapters of step {run.step}"]
    if callable(getattr(source.model, "save_pretrained", None)):
        return lines + write_directory(source, out)
    with Output.of(out, "merge").directory() as directory:
        SafetensorsRecorder().save(Record.of(source.model), directory / MODEL_NAME)
        described = source.config.description().get(OWN_NAME)
        replace_file(directory / OWN_NAME, described or source.config.to_yaml().encode())
        copy_beside(tokenizers_of(source), directory)
        keep_template(source, directory)
    return [*lines, f"model     {out}/{MODEL_NAME}, of the config {out}/{OWN_NAME}"]


def merge_directory(directory: Path, base: str | None, out: Path | Output) -> list[str]:
    """Write the model of peft's files with the adapters added to the weights of its base, a directory of transformers.

    The tokenizer is that of the adapter's directory, or else of the base's.

    Raises:
        ConfigError: neither `base` nor the adapter's config names a directory.
    """
    adapter_config = read_config(directory)
    named = adapter_config.get("base_model_name_or_path")
    where = base or (named and place_of_run(named, directory.parent))
    if where is None or not Path(where).is_dir():
        got = "none" if where is None else f"{where}, which is none"
        raise ConfigError(
            f"{directory}: expected the directory of the model that the adapters are for, got {got}; name it by --base"
        )
    out = Output.of(out, "merge")
    out.inputs += [directory, where]
    out.check_directory()
    head = _HEADS.get(adapter_config.get("task_type", ""))
    n_classes = None  # of the head that is saved with the adapters
    if adapter_config.get("task_type") in ("SEQ_CLS", "TOKEN_CLS"):
        tensors = open_record(directory / WEIGHTS_NAME).tensors
        heads = [tensors[name] for name in tensors if ".lora_" not in name and tensors[name].dim() == 2]
        n_classes = heads[-1].shape[0] if heads else None
    config = PretrainedConfig(path=str(where), head=head, n_classes=n_classes, strict=head is None)
    model: Any = config.init("cpu").eval()
    try:
        load_adapter(model, directory)
    except (ModuleTreeError, RecordMismatchError) as error:
        raise ConfigError(f"the adapters in {directory} are not for the model in {where}: {error}") from error
    count, saved = len(adapted(model)), tuple(f"{module}." for module in adapter_config.saved_modules(model))
    if drawn := [it for it in vars(model).get("_burnlike_drawn", ()) if not it.startswith(saved)]:
        raise ConfigError(
            f"{where}: has no {', '.join(drawn[:5])}, and neither have the adapters in {directory}: it is not the model"
            " that they were trained with"
        )
    merge_adapters(model)
    with Output.of(out, "merge").directory() as merged:
        save_for_transformers(model, merged, _tokenizer(directory) or _tokenizer(Path(where)))
    return [f"merged    {count} adapters of {directory} into {where}", f"hf        {out}, {type(model).__name__}"]


def _tokenizer(directory: Path) -> list[Path]:
    from ...data.chat.tokenizers import tokenizer_files, tokenizer_problem

    return [] if tokenizer_problem(str(directory)) else [*tokenizer_files(directory).values()]
