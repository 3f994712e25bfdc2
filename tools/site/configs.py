"""Pages of the configs, one for each role and each family of layers: keys, types with bounds, defaults, and an example.

They come from what the reader itself knows of the classes: `burnlike.config.registry`.
"""

import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec.inspect as mi
import yaml

from burnlike.config import Config, ModuleConfig, json_schema, registry
from burnlike.config.emit import to_plain
from burnlike.config.registry import ConfigType
from burnlike.config.words import describe
from burnlike.train import TrainConfig
from tools.pages import table

from . import api

FOLDER = "reference/configs"
_INTRODUCTION = """
Every key of every config, with its default and an example. [The guide](../../config.md) says how configs are read.
`type:` says which class, where several fit. `burnlike check FILE` tests a file without torch, `burnlike schema`
prints the JSON Schema for editors. Where a key is no text, `${path.to.a.value}` or `${env:NAME}` may stand for its
value.
"""


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


EXAMPLES: dict[str, dict[str, Any]] = {
    "MlpConfig": {"sizes": [8, 16, 2]},
    "TableSplitConfig": {"time": "date"},
    "BertMaskedLmConfig": {
        "encoder": {
            "vocab_size": 100,
            "d_model": 8,
            "n_layers": 1,
            "n_heads": 2,
            "d_ff": 16,
            "max_sequence_length": 16,
            "pooler": False,
        }
    },
    "DecoderLmConfig": {"n_heads": 2},
    "GraphConfig": {"nodes": {"first": {"type": "Linear", "d_input": 8, "d_output": 8}}, "outputs": "first"},
    "ResidualConfig": {"layers": [{"type": "Linear", "d_input": 8, "d_output": 8}]},
    "SequentialConfig": {"layers": [{"type": "Linear", "d_input": 8, "d_output": 8}, {"type": "Relu"}]},
    "OptimizerGroupsConfig": {
        "groups": [{"params": {"match": [{"type": "Regexes", "regexes": ["norm"]}]}, "optimizer": {"type": "Sgd"}}]
    },
    "SequentialLrConfig": {"schedulers": [{"type": "ConstantLr", "lr": 0.5}] * 2, "milestones": [8]},
    "ChatFormatConfig": {"user": "{question}", "assistant": "{answer}"},
    "StreamConfig": {"sources": [{"path": "path"}], "validation_items": 8},
    "TrainConfig": {
        "data": {"type": "Digits"},
        "model": {
            "type": "Sequential",
            "layers": [{"type": "Flatten"}, {"type": "Linear", "d_input": 64, "d_output": 10}],
        },
        "task": {"type": "Classification"},
        "optimizer": {"type": "AdamW"},
        "lr_scheduler": {"type": "CosineAnnealing", "initial_lr": 0.01},
        "training": {"epochs": 3},
    },
    "ColorJitterConfig": {"brightness": 0.5},
    "RandomCropConfig": {"size": [8, 8]},
    "SamplerConfig": {"size": 8},
    "MatchIds": {"ids": ["0123456789abc"]},
    "Interpolate1dConfig": {"scale_factor": 2.0},
    "Interpolate2dConfig": {"scale_factor": [2.0, 2.0]},
}
"""Keys of the example of a type, where those that fit one by one do not fit together."""


@cache
def by_page() -> dict[str, tuple[str, str, list[ConfigType]]]:
    """The pages: of each its title, what it says first, and the classes that it describes."""
    registry.load_built_in()
    api.names()
    found: dict[str, tuple[str, str, list[ConfigType]]] = {}
    seen: set[ConfigType] = set()

    def add(key: str, title: str, about: str, classes: list[ConfigType]) -> None:
        # Not those of programs that this process has imported: tests, extensions.
        own = [it for it in dict.fromkeys(classes) if it.__module__.partition(".")[0] == "burnlike"]
        new = [it for it in own if it not in seen and not registry.is_role(it)]
        seen.update(new)
        found.setdefault(key, (title, about, []))[2].extend(new)

    add("TrainConfig", "A training", "The root of the files that `burnlike train` reads.", [*_below(TrainConfig)])
    for tag, cls in registry.imported(ModuleConfig).items():
        if not tag.startswith("_"):
            part = cls.__module__.removeprefix("burnlike.").split(".")
            name = part[1] if part[0] == "nn" else "models"
            module = f"burnlike.{part[0]}.{part[1]}" if part[0] == "nn" else "burnlike.models"
            doc = inspect.getdoc(__import__(module, fromlist=["_"])) or name
            title, _, about = doc.splitlines()[0].rstrip(".").partition(": ")
            title = title.partition(",")[0]
            add(f"model_{name}", f"Models: {title}", about and f"{about.capitalize()}.", [cls, *_below(cls)])
    for role_name in registry.types_by_role(Config):
        role = registry.named(Config, role_name)
        if role is ModuleConfig:
            continue
        members = [it for it in registry.imported(role).values() if it.__module__.startswith("burnlike.")]
        if any(it not in seen for it in members):
            classes = [it for member in members for it in (member, *_below(member))]
            add(role_name, role_name.removesuffix("Config"), json_schema.documentation(role)[0], classes)
    first, *rest = (key for key, it in found.items() if it[2])
    return {key: found[key] for key in (first, *sorted(rest, key=lambda key: found[key][0]))}


def _below(cls: ConfigType) -> Iterator[ConfigType]:
    """The class and those without a `type:` that its fields hold."""
    found = [cls]
    for it in found:  # grows as it goes
        for field in registry.fields_of(it).values():
            for member in _members(field.type):
                if member not in found and not registry.is_role(member) and registry.tag_of(member) is None:
                    found.append(member)
    yield from found


def _members(wanted: mi.Type) -> Iterator[ConfigType]:
    for it in registry.members_of(wanted):
        if isinstance(it, mi.StructType):
            yield it.cls
        elif isinstance(it, mi.ListType | mi.VarTupleType):
            yield from _members(it.item_type)
        elif isinstance(it, mi.DictType):
            yield from _members(it.value_type)


def example(cls: ConfigType) -> str:
    """YAML that is read as the class: its type, and the keys that have no default."""
    given = EXAMPLES.get(cls.__name__, {})
    needed = {
        key: _value(it.type, key) for key, it in registry.fields_of(cls).items() if it.required and key not in given
    }
    tag = registry.tag_of(cls)
    told = {**({registry.TAG_FIELD: tag} if tag else {}), **needed, **given}
    return yaml.dump(told, Dumper=_Plain, sort_keys=False) if told else "{}  # every key has a default\n"


def _value(wanted: mi.Type, key: str) -> Any:
    """A value that a key takes."""
    match wanted:
        case mi.Metadata():
            return _value(wanted.type, key)
        case mi.UnionType():
            return _value(next(it for it in wanted.types if not isinstance(it, mi.NoneType)), key)
        case mi.StructType():
            choices = [*registry.imported(wanted.cls).values()] if registry.is_role(wanted.cls) else [wanted.cls]
            return yaml.safe_load(example(min(choices, key=_weight)))
        case mi.IntType():
            return max(8, wanted.ge or 0)
        case mi.FloatType():
            return max(0.5, wanted.ge or 0.0)
        case mi.BoolType():
            return True
        case mi.StrType():
            return key
        case mi.LiteralType():
            return wanted.values[0]
        case mi.ListType() | mi.VarTupleType():
            return [_value(wanted.item_type, key)] * max(1, wanted.min_length or 0)
        case mi.TupleType():
            return [_value(it, key) for it in wanted.item_types]
        case mi.DictType():
            return {"name": _value(wanted.value_type, key)}
    return None


def _weight(cls: ConfigType) -> tuple[bool, int]:
    """How much an example of a class has to say: whether it holds others, and how many keys."""
    needed = [it for it in registry.fields_of(cls).values() if it.required]
    return any(True for it in needed for _ in _members(it.type)), len(needed)


def _section(cls: ConfigType) -> str:
    about, notes = json_schema.documentation(cls)
    tag = registry.tag_of(cls)
    public = next((full for full, it in api.names().items() if it.value is cls), None)
    rows = []
    for key, field in registry.fields_of(cls).items():
        if field.required:
            default = "needed"
        else:
            plain = to_plain(registry.default_of(field))
            default = f"`{json.dumps(plain)}`" if plain != "" else '`""`'
        rows.append(("", f"`{key}`", _linked(describe(field.type)), default, notes.get(field.name, "")))
    parts = [f"\n## {tag or cls.__name__}\n\n{about}\n"]
    if public:
        parts.append(f"\nIn Python: `{public}`.\n")
    parts.append(f"\n```yaml\n{example(cls)}```\n")
    if rows:
        parts.append(table("", ("key", "value", "default", "what it is"), rows))
    return "".join(parts)


def pages() -> dict[str, str]:
    """The pages by their place in the site."""
    found: dict[str, str] = {}
    lines = ["# Configs", _INTRODUCTION]
    for key, (title, about, classes) in by_page().items():
        names = ", ".join(f"[{tag}]({key}.md#{tag.lower().replace('.', '')})" for tag in map(_name, classes))
        lines.append(f"- [{title}]({key}.md): {about} {names}")
        found[f"{FOLDER}/{key}.md"] = f"# {title}\n\n{about}\n{''.join(map(_section, classes))}"
    entries = "\n".join(by_page())
    toctree = f"\n\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    return found | {f"{FOLDER}/index.md": "\n".join(lines) + toctree}


def _linked(words: str) -> str:
    """The words for a type, with links to the pages of roles."""
    target = {"ModuleConfig": "index"} | {it: it for it in by_page()}
    return re.sub(r"\b\w+\b", lambda it: f"[{it[0]}]({target[it[0]]}.md)" if it[0] in target else it[0], words)


def _name(cls: ConfigType) -> str:
    return registry.tag_of(cls) or cls.__name__
