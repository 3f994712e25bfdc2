"""The config of a model with low-rank adapters. Imports no torch."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..._dtypes import FloatName
from ..._patterns import pattern_problem
from ...config import Meta, ModuleConfig, field
from ...config.bounds import CountOrZero, Positive, Size
from ...config.file_paths import FilePath
from ...module.adapters.configs import Eva
from ..by_path.configs import NewTokens, PretrainedConfig

if TYPE_CHECKING:
    from torch import nn


_STARTS = r"default|gaussian|orthogonal|eva|pissa|pissa_niter_\d{1,3}|olora|residual"
_LOFTQ = "loftq needs bitsandbytes, which computes it on GPUs alone, also in peft; take pissa or olora"
Names = tuple[Annotated[str, Meta(min_length=1)], ...]


def adapter_in(directory: Path) -> Path:
    """The directory of peft's files that is meant: of a run that of its result."""
    return directory if (directory / "adapter_config.json").exists() else directory / "adapter"


class LoRAConfig(ModuleConfig["nn.Module"], tag="LoRA", builds=".model:lora_model"):
    """Another model, of which only small matrices beside the weights of its layers are trained (Hu et al. 2021).

    Attributes:
        of: the model.
        rank: of the product of the two matrices of a layer.
        alpha: the product is multiplied by alpha / rank.
        targets: the layers: ends of their paths, such as `[q_proj, v_proj]`; `all-linear`, but for the layer that
            gives the logits; or a regular expression for whole paths.
        target_parameters: ends of the paths of weights that experts have in one tensor, such as `[gate_up_proj]`.
        dropout: share of a layer's input that its matrices are not given in training.
        dora: train the magnitudes of a layer's outputs apart from their directions (Liu et al. 2024).
        start: first values of the matrices of linear layers: `default`, as of `nn.Linear` and 0; `gaussian`;
            `orthogonal`; `pissa`, `pissa_niter_N` or `olora`, the largest part of the weight, which loses it (and a run
            leaves the whole model); `eva`, or `{type: Eva, ...}`, the directions in which a layer's inputs vary on the
            data. `residual` is of runs, whose weights have lost it.
        ranks: of layers with another rank, by their paths; alpha is changed as they are. 0: the layer has no matrices.
            A run with `eva` writes them.
        rslora: multiply by alpha / sqrt(rank) (Kalajdzievski 2023).
        modules_to_save: ends of the paths of modules that are trained whole. None: those beside the body of a model of
            transformers that the task needs, such as the `classifier` of a classification. A table of tokens that is
            tied to another is trained apart from it.
        ensure_weight_tying: tied tables of tokens of a model of transformers stay one: all are trained whole, or have
            one adapter, if one of them is meant.
        bias: the biases that are trained too: `lora_only` those of the layers with matrices, `all` every parameter of
            this name.
        dtype: of the matrices; None is that of the weights, float32 for those of 16 bits.
        quantize: round the weights of linear layers to 8 bits, or to 4 bits of normal numbers (QLoRA).
        new_tokens: as of `Pretrained`, with rows of the tables of tokens that are trained while the others stay: peft's
            `trainable_token_indices`.
        adapter: a directory of peft's files, or a run, whose adapters are trained on; the fields above say the same. If
            it has tables of more tokens, the model gets as many.
    """

    of: ModuleConfig
    rank: Size = 8
    alpha: Positive = 16.0
    targets: Names | Annotated[str, Meta(min_length=1)] = "all-linear"
    target_parameters: Names = ()
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    dora: bool = False
    start: str | Eva = "default"
    ranks: dict[str, CountOrZero] = field(default_factory=dict)
    rslora: bool = False
    modules_to_save: Names | None = None
    ensure_weight_tying: bool = False
    bias: Literal["none", "all", "lora_only"] = "none"
    dtype: FloatName | None = None
    quantize: Literal["int8", "nf4"] | None = None
    new_tokens: NewTokens = ()
    adapter: FilePath | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if isinstance(self.of, LoRAConfig):
            yield "of", "expected a model without adapters, got LoRA again"
        if getattr(self.of, "new_tokens", ()):
            yield "of.new_tokens", "expected it beside `of`: in it, the rows of new tokens would stay untrained"
        if not self.targets and not self.target_parameters:
            yield "targets", "expected layers, such as [q_proj, v_proj], or all-linear"
        if self.start == "loftq":
            yield "start", _LOFTQ
        elif isinstance(self.start, str) and not re.fullmatch(_STARTS, self.start):
            yield "start", f"expected {_STARTS.replace('|', ', ')}, got '{self.start}'"
        if self.takes_part_of_weights and self.quantize is not None:
            yield "start", f"expected no {self.start} with quantize, since rounded weights can't lose a part of theirs"
        if self.start != "default" and self.adapter is not None:
            yield "start", "expected none with `adapter`, which has the first values"
        if isinstance(self.targets, str) and (problem := pattern_problem(self.targets)):
            yield "targets", f"{problem}; or a list of ends of paths"

    @property
    def vocab_size(self) -> int | None:
        return getattr(self.with_new_tokens, "vocab_size", None)

    @property
    def with_new_tokens(self) -> ModuleConfig:
        """The config of the model without adapters, with its new tokens."""
        has_place = hasattr(self.of, "new_tokens")  # else it is refused when it is built
        grown = self.of.replace(new_tokens=self.new_tokens) if self.new_tokens and has_place else self.of
        return getattr(grown, "with_new_tokens", grown)

    @property
    def count_of_tokens(self) -> int | None:
        return getattr(self.of, "count_of_tokens", None)

    @property
    def max_sequence_length(self) -> int | None:
        return getattr(self.of, "max_sequence_length", None)

    @property
    def has_base_elsewhere(self) -> bool:
        """True if the model without adapters is read from a directory that has its weights."""
        return isinstance(self.of, PretrainedConfig) and self.of.weights == "read" and not self.takes_part_of_weights

    @property
    def takes_part_of_weights(self) -> bool:
        """True if the weights lose what the matrices begin with."""
        return self.eva is None and self.start not in ("default", "gaussian", "orthogonal")

    @property
    def eva(self) -> Eva | None:
        """The options of `start: eva`; None with another start."""
        return Eva() if self.start == "eva" else self.start if isinstance(self.start, Eva) else None

    @property
    def input_counts(self) -> tuple[int, int | None] | None:
        return self.of.input_counts

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return self.of.example_inputs()

    def file_problems(self) -> Iterable[tuple[str, str]]:
        path = None if self.adapter is None else Path(self.adapter).expanduser()
        if path is not None and path.is_dir() and not (adapter_in(path) / "adapter_config.json").is_file():
            yield "adapter", f"{path}: expected a directory with peft's adapter_config.json, or a run with adapters"

    def for_task(self, head: str, classes: Sequence[str] | None) -> "LoRAConfig":
        return self.replace(of=self.of.for_task(head, classes))

    @property
    def lacks_sizes(self) -> bool:
        return self.of.lacks_sizes

    def for_sizes(self, d_input: int | None, d_output: int | None) -> "LoRAConfig":
        return self.replace(of=self.of.for_sizes(d_input, d_output))

    def description(self, module: Any = None) -> Mapping[str, bytes]:
        return self.of.description(module)

    def without_weights(self, run: Path) -> "LoRAConfig":
        if self.has_base_elsewhere and not list(run.glob("model.safetensors*")):
            return self.replace(adapter=self._with_tables(run))  # of which a run keeps the adapters alone
        start = "residual" if self.takes_part_of_weights else "default" if self.eva is None else self.start
        return self.replace(of=self.of.without_weights(run), adapter=None, start=start)

    def _with_tables(self, run: Path) -> str | None:
        """The adapters that the model began with, or those of its run, if they decide how many tokens it has."""
        from ...interop.adapters.peft_files import has_whole_tensors

        if self.adapter is None:
            return None
        begun = adapter_in(Path(self.adapter).expanduser())
        there = (it for it in (begun, run / "adapter") if (it / "adapter_config.json").exists())
        return next((str(it) for it in there if has_whole_tensors(it)), None)

    def init_from(self, source: Any, device: Any = None, **options: Any) -> Any:
        from .model import with_adapters

        return with_adapters(self, self.of.init_from(source, device, **options))
