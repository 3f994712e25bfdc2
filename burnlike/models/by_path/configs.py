"""The config of a model in a directory. Imports no torch."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..._dtypes import FloatName
from ...config import Meta, ModuleConfig, field
from ...config.bounds import Size
from ...config.file_paths import FilePath

if TYPE_CHECKING:
    from torch import nn

Attention = Literal["eager", "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3"]
_OF_TRANSFORMERS = ("attention", "options", "fuse")
FROM_TOKENIZER = "from_tokenizer"
NewTokens = (
    Literal["from_tokenizer"] | tuple[Annotated[str, Meta(min_length=1)] | Annotated[int, Meta(ge=0, lt=2**31)], ...]
)


class PretrainedConfig(ModuleConfig["nn.Module"], tag="Pretrained", builds=".build:pretrained"):
    """The model that a directory describes, with the weights in it.

    Attributes:
        path: the directory: with `config.json` and weights, as transformers saves them; or that of a run of burnlike.
        library: whose model is made: `transformers`, by its own code, or `burnlike`, by the tables of weights that it
            has for a directory of transformers.
        head: the end of the model, as transformers calls it: `SequenceClassification`, `CausalLM`, ...; None takes what
            the task needs, or else the model that the directory names.
        n_classes: of a classifier; None takes the classes of the data, or else those of the directory.
        classes: their names, by number; None takes those of the data.
        weights: `read` them; or `random`, drawn for the model that `config.json` describes, by the run's seed.
        strict: whether it is an error if the directory lacks weights of the model below its head, or has others there.
            Such weights are else drawn, and left out; the run says which.
        dtype: of the parameters; None takes that of `config.json`, or of the weights.
        attention: how attention is computed; None leaves it to transformers.
        options: keys of `config.json` with other values, such as `hidden_dropout_prob: 0.0`.
        fuse: compute with native ops where these compute the same, see `burnlike.interop.fuse`.
        new_tokens: names of tokens that the model does not have, which the data's tokenizer gets if it lacks them; or
            `from_tokenizer`: those that it has more than the model. Each new row of the tables of tokens is the mean of
            the others first. Also numbers of tokens.
    """

    path: FilePath
    library: Literal["transformers", "burnlike"] = "transformers"
    head: Annotated[str, Meta(pattern=r"^[A-Z]\w*$")] | None = None
    n_classes: Size | None = None
    classes: tuple[str, ...] | None = None
    weights: Literal["read", "random"] = "read"
    strict: bool = True
    dtype: FloatName | None = None
    attention: Attention | None = None
    options: dict[str, Any] = field(default_factory=dict)
    fuse: bool = False
    new_tokens: NewTokens = ()

    def validate(self) -> Iterable[tuple[str, str]]:
        if None not in (self.n_classes, self.classes) and self.n_classes != len(self.classes or ()):
            yield "n_classes", f"expected {len(self.classes or ())}, the number of `classes`, got {self.n_classes}"
        if self.library == "burnlike":
            for name in _OF_TRANSFORMERS:
                if getattr(self, name):
                    yield name, "is for models of transformers; leave it out, or leave out `library: burnlike`"

    def for_task(self, head: str, classes: Sequence[str] | None) -> "PretrainedConfig":
        counts = {None if classes is None else len(classes), None}
        names = tuple(classes) if classes is not None and self.classes is None and self.n_classes in counts else None
        return self.replace(head=self.head or head or None, classes=names or self.classes)

    @property
    def count_of_tokens(self) -> int | None:
        """The tokens that the directory says a model of transformers has."""
        from .build import count_of_tokens

        return count_of_tokens(self)

    def file_problems(self) -> Iterable[tuple[str, str]]:
        from .directory import directory_problems

        yield from directory_problems(self)

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        from .directory import example_inputs

        return example_inputs(self)

    def description(self, module: Any = None) -> Mapping[str, bytes]:
        from .saving import description_files

        return description_files(self, module)

    def without_weights(self, run: Path) -> ModuleConfig:
        from .directory import CONFIG_NAME, OWN_NAME

        if (run / OWN_NAME).exists():
            return ModuleConfig.load(run / OWN_NAME)
        path = str(run) if (run / CONFIG_NAME).exists() else self.path
        return self.replace(path=path, weights="random", n_classes=None, classes=None, options={}, new_tokens=())

    def init_from(self, source: Any, device: Any = None, **options: Any) -> Any:
        from .build import filled

        return filled(self, source, device, **options)
