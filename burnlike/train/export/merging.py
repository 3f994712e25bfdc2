"""Models with adapters as plain models: the adapters are added to the weights."""

from pathlib import Path
from typing import Any

from ..._atomic import replace_file
from ..._outputs import Output
from ...errors import ArgumentError, ConfigError, ModuleTreeError, RecordMismatchError
from ...interop import load_adapter, merge_adapters
from ...interop.adapters.layers import adapted
from ...interop.adapters.peft_config import WEIGHTS_NAME, read_config
from ...models import PretrainedConfig, save_for_transformers
from ...models.by_path.directory import OWN_NAME
from ...record import Record, SafetensorsRecorder, open_record
from ..job.loaded_run import MODEL_NAME, LoadedRun
from ..job.run_config import place_of_run
from .hugging_face import copy_beside, keep_template, tokenizers_of, write_directory
from .source import source_of_run

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
    count, saved = len(adapted(model)), tuple(f"{it}." for it in adapter_config.saved_modules(model))
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
