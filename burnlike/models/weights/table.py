"""Tables of weights: which tensor of a model is which in the files of another library. Imports no torch.

Each file of this folder that has a `WeightTable` is found.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ...config import ModuleConfig
from ...errors import RecordError, nearest
from ...nn.tensor_source import TensorRecipe, TensorSource
from . import __path__ as folder


@dataclass(frozen=True, slots=True)
class WeightTable:
    """Names and layouts of a model's weights in another library.

    Attributes:
        name: what `--from` and `--to` call it.
        model_types: the values of `model_type` in a `config.json` that it fits.
        config: the model's config, of the content of `config.json`; it raises `ConfigError` for what the model lacks.
            Keys that it does not read are refused, but those of `harmless`.
        tensors: name of each tensor of the model, as it is in torch's layers (`weight` for `gamma`, `[d_output,
            d_input]` of a linear layer) -> theirs. `{i}` and the like stand for numbers, a `*` at the end for any
            name. Several of theirs, as query, key and value of an `nn.MultiheadAttention`, are equal parts of dimension
            0 of ours. Entries of tensors that a model does not have are left out.
        architectures: what `architectures` of a `config.json` may name; the first is meant where it names none.
        harmless: keys of a `config.json` that change no output, besides those that no model computes with.
        prefixes: what files may have before each name; saving writes the first.
        backbone: what the names of the model without its head begin with, as `model.`; files of such a model alone
            lack it.
        tied: name of theirs that files may have besides -> name of theirs whose values it repeats.
        copied: name of theirs that files may lack -> name of theirs whose values it has then.
        ignored: expressions of names of theirs that have nothing to load.
        heads: what the names of a head begin with; a model that has nothing of it ignores them.
        old_names: expression of the end of a name in older files -> the end that it has now.
    """

    name: str
    model_types: tuple[str, ...]
    config: Callable[[Mapping[str, Any]], ModuleConfig]
    tensors: Mapping[str, str | TensorSource | Sequence[str]]
    architectures: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ("",)
    backbone: str = ""
    tied: Mapping[str, str] = field(default_factory=dict)
    copied: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    old_names: Mapping[str, str] = field(default_factory=dict)

    def recipes(self, names: Iterable[str]) -> dict[str, TensorRecipe]:
        """The names of torch's in the table -> the recipe that makes each of their tensors, without a prefix."""
        rows = [(_expression(ours), _sources(theirs)) for ours, theirs in self.tensors.items()]
        recipes: dict[str, TensorRecipe] = {}
        for name in names:
            for expression, sources in rows:
                if match := expression.fullmatch(name):
                    groups = match.groupdict()
                    recipes[name] = TensorRecipe(tuple(replace(it, name=_filled(it.name, groups)) for it in sources))
                    break
        return recipes

    def current_name(self, name: str) -> str:
        """The current form of one of their names."""
        for old, new in self.old_names.items():
            name = re.sub(f"{old}$", new, name)
        return name

    @property
    def head(self) -> frozenset[str]:
        """The names of theirs of the head."""
        recipes = self.recipes(("head.weight", "head.bias"))
        return frozenset(source.name for recipe in recipes.values() for source in recipe.sources)

    def whole_names(self, names: Sequence[str], wanted: Collection[str]) -> Sequence[str]:
        """Names of theirs with what those of a file of the backbone alone lack; `wanted` are those of the model."""
        longer = [name if name in wanted else f"{self.backbone}{name}" for name in names]
        counts = [sum(candidate in wanted for candidate in candidates) for candidates in (names, longer)]
        return longer if counts[1] > counts[0] else names

    def is_ignored(self, name: str, used: Collection[str]) -> bool:
        """True if one of their names, without prefix, has nothing to load into a model that has the names `used`."""
        if any(re.fullmatch(expression, name) for expression in self.ignored):
            return True
        return any(name.startswith(head) and not any(it.startswith(head) for it in used) for head in self.heads)


@cache
def weight_tables() -> Mapping[str, WeightTable]:
    """The tables by their names."""
    modules = [importlib.import_module(f"{__package__}.{module.name}") for module in pkgutil.iter_modules(folder)]
    tables = [var for module in modules for var in vars(module).values() if isinstance(var, WeightTable)]
    return {it.name: it for it in sorted(tables, key=lambda table: table.name)}


def weight_table(name: str) -> WeightTable:
    """The table of that name; a RecordError if there is none."""
    if name not in weight_tables():
        types = ", ".join(weight_tables())
        raise RecordError(
            f"there are no weights called '{name}'{nearest(name, [*weight_tables()])}; expected one of {types}"
        )
    return weight_tables()[name]


def _sources(theirs: str | TensorSource | Sequence[str]) -> list[TensorSource]:
    if isinstance(theirs, TensorSource):
        return [theirs]
    return [TensorSource(name) for name in ([theirs] if isinstance(theirs, str) else theirs)]


_HOLE = re.compile(r"\\\{(\w+)\\\}")


def _expression(pattern: str) -> re.Pattern[str]:
    text = _HOLE.sub(lambda hole: rf"(?P<{hole[1]}>\d+)", re.escape(pattern).replace(r"\*", "(?P<rest>.+)"))
    return re.compile(text)


def _filled(pattern: str, groups: Mapping[str, str]) -> str:
    for key, value in groups.items():
        pattern = pattern.replace("*" if key == "rest" else f"{{{key}}}", value)
    return pattern
