"""LoadedRun: the model of a run; measuring it on data (`evaluate_run`), using it on new inputs (`predictions`); and the
weights that a run leaves at its end, written and read back."""

import copy
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from ..._atomic import replace_file
from ..._outputs import Output
from ..._regular_file import read_regular
from ...config import ModuleConfig
from ...config.overrides import Option
from ...data import ComposedDataset
from ...data.batching import BatchMaker, Request, bad_batch
from ...data.sources.configs import TableConfig
from ...data.sources.splits import classes_of, measured, outputs_of
from ...data.texts.configs import TextRowsConfig
from ...errors import ArgumentError, CheckpointError, ConfigError, DataError, RunDirError, nearest
from ...interop import load_adapter, save_adapter
from ...interop.adapters.layers import ABOUT, filled_tables
from ...module import ParamGroup
from ...module.adapters.layers import Lora
from ...module.torch_objects.wrappers import unwrap
from ...optim import SgdConfig
from ...record import Precision, Record, SafetensorsRecorder, load
from ..checkpoint.checkpointer import Checkpoint, Checkpointer
from ..learner.learner import Learner
from ..learner.steps import autocast
from ..learner.updates import Ema
from ..parallel.single_process import SingleProcess
from ..runs.logs import read_metrics, write_json
from ..runs.run_dir import DATA_FOLDER, DATA_NAME, kept_facts, local_run
from ..runs.run_files import EVALUATIONS, results_of
from ..state.training_state import check_base, has_base, kept_paths, load_model, noted_digest
from ..tasks.task import Task
from ..tasks.token_batches import most_positions
from .configs import TrainConfig, Weights
from .device import choose_device
from .run_config import run_config
from .starting import choose_trained, loader_of, model_config

MODEL_NAME = "model.safetensors"
ADAPTER_NAME, BASE_NAME = "adapter", "base.json"
_MOST_BYTES = 1 << 20


def write_weights(
    model: nn.Module, run: Path, precision: str, parallel: SingleProcess, empty: nn.Module | None
) -> None:
    """Write the weights of a model into a run's directory; all processes of a sharded one together.

    Of a model with adapters these are the files of peft in `adapter/`, in the types of the adapters. If all else in it
    can be read again, `base.json` there has a digest of that; if not, the whole model is written beside them.
    Of a divided model rank 0 gathers what is written, and nothing else; `empty` is what `without_values` gave of one
    with adapters.
    """
    about, has_files = vars(model).get(ABOUT), not has_base(model)
    if has_files and any(isinstance(module, Lora) and module.is_residual for module in model.modules()):
        about = None  # peft's files would be of another base
    record = Record.of(model)
    if about is not None and empty is not None:
        kept = frozenset(filled_tables(model)).union(*parallel.gather(kept_paths(model)))
        if not has_files:
            record = Record.from_module(
                model, ParamGroup.from_predicate(lambda it: it.path in kept or it.kind != "weight")
            )
        record = parallel.whole(record)
        if parallel.is_main:
            record.load_into(empty, strict=False, device="cpu")  # the rest stays without values
            save_adapter(empty, run / ADAPTER_NAME, **about)
    elif about is not None and parallel.is_main:
        save_adapter(model, run / ADAPTER_NAME, **about)
    else:
        record = parallel.whole(record)
    if not parallel.is_main:
        return
    if has_files:
        SafetensorsRecorder(Precision(getattr(torch, precision))).save(record, run / MODEL_NAME)
    else:
        text = json.dumps({"path": about and about["base"], "sha256": noted_digest(model)}, indent=1)
        replace_file(run / ADAPTER_NAME / BASE_NAME, text.encode() + b"\n")


def read_weights(model: nn.Module, run: Path) -> None:
    """Load what `write_weights` wrote into a model of the same config, prepared by the same task."""
    if (run / MODEL_NAME).exists() or not (run / ADAPTER_NAME).exists():
        load(model, run / MODEL_NAME)
        return
    load_adapter(model, run / ADAPTER_NAME)
    base = run / ADAPTER_NAME / BASE_NAME
    digest = json.loads(read_regular(base, _MOST_BYTES))["sha256"]
    check_base(model, kept_paths(model), digest, str(run / ADAPTER_NAME))


def has_weights(run: Path) -> bool:
    """True if a run has written weights at its end."""
    return (run / MODEL_NAME).exists() or (run / ADAPTER_NAME / BASE_NAME).exists()


def without_values(model: nn.Module) -> nn.Module:
    """A copy of a model with its parameters on the meta device."""
    empties = {
        id(it): nn.Parameter(torch.empty(it.shape, dtype=it.dtype, device="meta"), requires_grad=it.requires_grad)
        for it in model.parameters()
    }
    return copy.deepcopy(model, empties)


def copy_of(model: nn.Module) -> nn.Module:
    """A copy of a model to read its weights into; what stays as it is of one with adapters, they share."""
    frozen = {id(it): it for it in model.parameters() if not it.requires_grad} if has_base(model) else {}
    return copy.deepcopy(model, frozen)


ALL = "all"


@dataclass(eq=False)
class LoadedRun:
    """The model of a run, ready to use.

    Attributes:
        path: the run's directory.
        config: its config.
        model: with the chosen weights, in evaluation mode, on `device`.
        task: what it was trained for.
        facts: what is known of the data, such as the names of its features, and its `classes`.
        step: of the weights, and `weights` which they are: of the `best` validation, the `last` ones, their average
            (`ema`), or of a `checkpoint` that was named.
    """

    path: Path
    config: TrainConfig
    model: nn.Module
    task: Task
    facts: Mapping[str, Any]
    step: int
    weights: str
    device: torch.device

    @property
    def classes(self) -> Sequence[str] | None:
        """The names of the classes, by number; None where the data has none."""
        return self.facts["classes"]

    @property
    def directory(self) -> Path:
        """The copies of files of the data, such as a tokenizer."""
        return self.path / DATA_FOLDER

    @contextmanager
    def knowing(self) -> Iterator[None]:
        """Explain which of the data's facts is missing, and where it should be."""
        try:
            yield
        except KeyError as error:
            raise RunDirError(
                f"{self.path / DATA_NAME} lacks {error}, without which data can't be read as the training has read it;"
                " it was changed, or written by another release: put the file back, or train again"
            ) from error

    def fitted(self, data: Any) -> Any:
        """The config of a data set, whose texts are cut at the last position of the model, if it has fewer of them."""
        most = most_positions(unwrap(self.model)) if isinstance(data, TextRowsConfig) else None
        return data if most is None or most >= data.max_length else data.replace(max_length=most)

    def read_data(self, config: Any = None) -> Any:
        """Read a data set, the run's own or another config's, with the classes that the model knows."""
        chosen = self.fitted(config or self.config.data)
        with self.knowing():
            is_old = {*self.facts} == {"classes"}  # a run of a release that kept nothing else
            data = chosen.init() if is_old else chosen.init_with(self.facts, self.directory)
        classes = classes_of(data)
        if classes is not None and self.classes is not None and classes != list(self.classes):
            raise DataError(
                f"data: expected the classes of the run {self.path}, {', '.join(self.classes)},"
                f" got {', '.join(classes)}: their numbers would mean other things"
            )
        return data


def load_run(
    path: str | os.PathLike[str],
    *,
    best: bool | None = None,
    step: int | None = None,
    device: torch.device | str | None = None,
    overrides: "list[Option | str] | tuple[()]" = (),
) -> LoadedRun:
    """Load the model of a run.

    Weights are read from the run's checkpoints, in full precision and as they were validated (of `training.ema` the
    average), or where that of their step is gone from `model.safetensors`.

    Args:
        path: the directory of the run.
        best: True: of the best validation, by `keep_best` or else the loss, among the checkpoints that are there.
            False: of the last checkpoint. None: as `output.weights` of the config says.
        step: of a checkpoint, in place of `best`.
        device: where the model goes; None: as the config says.
        overrides: as of `TrainConfig.load`, put into the config of the run.

    Raises:
        CheckpointError: there is no run, or no such checkpoint.
        RunDirError, RecordError: a file can't be read, or does not fit.
    """
    run = local_run(path)
    config = run_config(run, overrides)
    facts = kept_facts(run)
    if getattr(config.data, "standardize_targets", False) and "target_scale" not in facts:
        raise RunDirError(
            f"{run / DATA_NAME} lacks 'target_scale', without which predictions have no unit; it was changed: put the"
            " file back, or train again"
        )
    place = choose_device(config.device if device is None else str(device))
    wanted: Weights = config.final_weights if best is None else "best" if best else "last"
    checkpoint, weights = _choose(run, config, wanted, step)
    task: Task = config.task.init()
    task.take_facts(facts)
    model = task.prepare(_structure(run, config, facts).init("cpu"))
    choose_trained(model, config)  # of which alone there may be an average
    if checkpoint.path == run:
        read_weights(model, run)
    else:
        load_model(checkpoint.part("model"), model)
        if config.training.ema is not None and not (best is None and weights == "last"):
            average = Ema(model, config.training.ema).load_record(checkpoint.part("ema"))
            average.swap()
    return LoadedRun(run, config, model.to(place).eval(), task, facts, checkpoint.step, weights, place)


def model_of_run(path: str, device: torch.device) -> nn.Module:
    """The model of a run, in training mode, on `device`; on the meta device without its weights."""
    if device.type != "meta":
        return load_run(path, device=device).model.train()
    run = Path(path)
    config = run_config(run)
    return config.task.init().prepare(_structure(run, config, kept_facts(run)).init("meta"))


def _structure(run: Path, config: TrainConfig, facts: Mapping[str, Any]) -> ModuleConfig:
    """The config of a run's model, whose weights are the run's."""
    return model_config(config, outputs_of(facts["classes"], facts), facts).without_weights(run)


def _choose(run: Path, config: TrainConfig, wanted: Weights, step: int | None) -> tuple[Checkpoint, str]:
    """The checkpoint with the wanted weights, or the run itself where its result has them; and which these are."""
    result = results_of(run)
    checkpoints = {it.step: it for it in Checkpointer(run / "checkpoints").all()}
    written = result.get("step") if has_weights(run) else None
    if isinstance(written, int):
        # A checkpoint of the same step goes before the result: it is in full precision.
        checkpoints.setdefault(written, Checkpoint(written, run))
    steps = ", ".join(map(str, sorted(checkpoints)))
    if not checkpoints:
        raise CheckpointError(f"the run {run} has no checkpoint and no {MODEL_NAME} yet; go on with it by --resume")
    if step is not None:
        if step not in checkpoints:
            raise CheckpointError(f"the run {run} has no checkpoint of step {step}, but of {steps}")
        return checkpoints[step], "checkpoint"
    if wanted == "best" and (best := best_step(run, config, {*checkpoints})) is not None:
        return checkpoints[best], "best"
    if wanted == "best" and config.training.keep_best is not None:
        raise CheckpointError(
            f"the run {run} has no validation of the steps whose weights are there, {steps}; choose one"
        )
    return checkpoints[max(checkpoints)], "last" if wanted == "best" else wanted


def best_step(run: Path, config: TrainConfig, steps: set[int]) -> int | None:
    """The step among these with the best validation, by `keep_best` or else the loss; None if none was validated."""
    best = config.best_metric
    lines = [it for it in read_metrics(run / "metrics.jsonl").lines if it["split"] == "valid" and it["step"] in steps]
    sign = 1 if best.direction == "lowest" else -1
    values: dict[int, tuple[float, float]] = {}
    for line in lines:
        if line.get(best.metric) is not None:  # of equal ones the loss decides, as in `MetricCheckpointingStrategy`
            loss = line["loss"] if line.get("loss") is not None else math.inf
            values[line["step"]] = sign * line[best.metric], loss
    return min(values, key=values.__getitem__, default=None)


class Evaluation(NamedTuple):
    """The loss and the metrics of a part of the data, and where they are kept; `left_out` says why the first of the
    items that can't be read were left out. `problem` says why `file` is not there, as of a run that is only readable.
    """

    split: str
    items: int
    values: Mapping[str, float]
    file: Path
    left_out: Sequence[str] = ()
    problem: str = ""


def data_at(run: LoadedRun, path: str) -> Any:
    """The config of the run's data for another file or directory, all of which is measured.

    Raises:
        ConfigError: the run's data is not of a `path`.
    """
    config: Any = run.config.data
    paths = {name for name in ("path", "validation_path") if name in config.__struct_fields__}
    if "path" not in paths:
        raise ConfigError(
            f"--data {path}: the run's data, {type(config).__name__.removesuffix('Config')}, is not of one path; give a"
            " YAML file with the config of other data"
        )
    # A text or a table is both parts: a cut would lose the window across it, folds would lose the rows of others.
    is_table = isinstance(config, TableConfig)
    parts = paths if is_table or "context_length" in config.__struct_fields__ else {"path"}
    undivided: dict[str, Any] = {"split": "random", "folds": None, "fold": 0} if is_table else {}
    return config.replace(**undivided, **{name: path if name in parts else None for name in paths})


def evaluate_run(run: LoadedRun, split: str | None = None, data: Any = None, *, notes: Mapping[str, Any]) -> Evaluation:
    """Measure the model of a run on a part of its data, or of the data of another config.

    Each part is read as `predict` reads it: with the transforms of `valid`, also the part to train on.

    Args:
        split: `train`, `valid`, the name of a further part, or `all` of them together; None: `test` where there is such
            a part, else `valid`.
        data: config of a data set; None for the run's own.
        notes: written beside the values, such as the options.

    Raises:
        ArgumentError: there is no such part.
        BurnlikeError: the data can't be read, or is not of this model.
    """
    started = time.perf_counter()
    source = run.read_data(data)
    run.task.take_data(source)
    if data is None:
        run.task.recall(source, run.path)
    parts = {"train": source.train, "valid": source.valid, **getattr(source, "splits", {})}
    parts = {name: measured(part, run.config.transforms) for name, part in parts.items()}
    name = split or ("test" if "test" in parts else "valid")
    if name == ALL:
        is_one = data is not None and getattr(data, "validation_path", None) == getattr(data, "path", "")
        parts[ALL] = parts["valid"] if is_one else ComposedDataset([*parts.values()])
    if name not in parts:
        raise ArgumentError(f"--split {name}: expected one of {', '.join((*parts, ALL))}{nearest(name, [*parts])}")
    config = run.config
    loader = loader_of(config, source, parts[name], run.device)
    metrics = config.init_metrics(outputs_of(run.classes, run.facts))
    options: dict[str, Any] = {"device": run.device, "precision": config.training.precision}
    learner = Learner(run.model, SgdConfig().init(), 0.0, task=run.task, metrics=metrics, **options)
    learner.step = run.step
    skipped_before = loader.skipped
    values = learner.evaluate(loader)
    items = len(parts[name]) - (loader.skipped - skipped_before)
    left_out = [*loader.left_out, *(it for it in getattr(parts[name], "unreadable", ()) if it)]
    # Numbered, so that each stays: `burnlike report` has a row for each time.
    stem = run.path / EVALUATIONS / f"{name}-step-{run.step:08d}"
    numbered = (Path(f"{stem}{f'-{number}' if number > 1 else ''}.json") for number in count(1))
    file = next(it for it in numbered if not os.path.lexists(it))
    facts = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "seconds": time.perf_counter() - started}
    about = {"step": run.step, "weights": run.weights, "split": name, "items": items, "left_out": left_out, **notes}
    problem = ""
    try:
        Output(file, "evaluate", "the evaluation").check_file()
        write_json(file, {**facts, **about, "values": values})
    except (ArgumentError, RunDirError) as error:  # what was measured is worth more
        problem = str(error)
    return Evaluation(name, items, values, file, left_out, problem)


@torch.no_grad()
def predictions(
    run: LoadedRun, sources: Sequence[Any], batch_size: int | None = None, left_out: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """A row for each input: its `name`, and the task's predictions; a tensor `[height, width]` is a mask.

    Inputs are read as the data of the training is, and changed as that of its validation is.

    Args:
        sources: paths of files or directories, and a text stream for standard input.
        batch_size: inputs of a batch; None: that of the training.
        left_out: gets a reason for each input that can't be read, if the training left such items out.

    Raises:
        DataError: an input can't be read, or a directory has none. Of files without rows there are no predictions.
        ConfigError: the data or the task of the run has no predictions.
    """
    config = run.config
    with run.knowing():
        inputs = run.fitted(config.data).unlabeled(sources, run.facts, run.directory)
    if len(inputs.names) == 0:
        if folder := next((source for source in sources if isinstance(source, Path) and source.is_dir()), None):
            raise DataError(f"predict: expected at least one input in {folder}, got none; check the path")
        return
    dataset = measured(inputs.dataset, config.transforms)
    if len(dataset) != len(inputs.names):
        raise DataError(
            f"transforms: one of them makes {len(dataset)} items of {len(inputs.names)} inputs; leave it out of the"
            " part `valid`, or set `transforms` anew by --set"
        )
    size = batch_size or config.training.batch_size
    decode = None
    with suppress(ConfigError):  # of data without tokens, which have no text
        decode = config.data.codec(run.facts, run.directory).decode
    facts = {**run.facts, "decode": decode}
    maker = BatchMaker(dataset, inputs.batcher, None, config.training.on_bad_item)
    for start in range(0, len(dataset), size):
        indices = [*range(start, min(start + size, len(dataset)))]
        made_batch = maker.make(Request(0, start // size, indices), run.device)
        skipped = dict(made_batch.skipped)
        if left_out is not None:
            left_out += skipped.values()
        if len(skipped) == len(indices):
            continue
        if made_batch.error:
            raise bad_batch(made_batch) from made_batch.cause
        with autocast(run.device, config.training.precision):
            rows = run.task.predict(run.model, made_batch.batch, facts)
        for index, row in zip((it for it in indices if it not in skipped), rows, strict=True):
            yield {"name": inputs.names[index], **row}
