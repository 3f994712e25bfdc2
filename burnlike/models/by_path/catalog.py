"""Facts of the installed transformers, read from its source: importing it would take seconds and load torch."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import ConfigError

_PREFIX = "AutoModelFor"
MISSING = "type: Pretrained needs the package transformers: pip install 'burnlike[transformers]'"


class Catalog(NamedTuple):
    """The `model_type`s that are known, and the classes of each of them by the head, such as `CausalLM`; that of the
    model without a head is empty.
    """

    model_types: frozenset[str]
    heads: Mapping[str, Mapping[str, tuple[str, ...]]]

    def heads_of(self, model_type: str) -> list[str]:
        return [head for head, classes in self.heads.items() if head and model_type in classes]

    def classes_of(self, model_type: str) -> set[str]:
        """The names of all classes of a type of model."""
        return {name for classes in self.heads.values() for name in classes.get(model_type, ())}


@cache
def catalog() -> Catalog:
    """The catalog of the transformers that is installed; a ConfigError if there is none, or none that is known here."""
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        raise ConfigError(MISSING)
    folder = Path(spec.origin).parent / "models" / "auto"
    tables: dict[str, dict[str, Any]] = {}
    mappings: dict[str, str] = {}
    heads: dict[str, Mapping[str, tuple[str, ...]]] = {}
    try:
        for file in ("auto_mappings.py", "configuration_auto.py", "modeling_auto.py"):
            if (folder / file).exists():
                for node in ast.parse((folder / file).read_text("utf-8")).body:
                    _read(node, tables, mappings, heads)
        return Catalog(frozenset(tables["CONFIG_MAPPING_NAMES"]).union(*heads.values()), heads)
    except (OSError, ValueError, LookupError, SyntaxError) as error:
        raise ConfigError(f"{folder}: the models of this transformers can't be listed: {error}") from error


def _read(node: ast.stmt, tables: Any, mappings: Any, heads: Any) -> None:
    """Take up a statement: a table of names, a mapping by one, or an auto class with its mapping."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="OrderedDict"), args=[ast.List(elts=rows)])
        ):
            tables[name] = dict(_rows(rows, tables))
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update"), args=[ast.Dict() as more])
        ):
            tables[name] |= ast.literal_eval(more)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(), ast.Name(id=table)])):
            mappings[name] = table
        case ast.ClassDef(name=name) if name == "AutoModel" or name.startswith(_PREFIX):
            for statement in node.body:
                match statement:
                    case ast.Assign(targets=[ast.Name(id="_model_mapping")], value=ast.Name(id=mapping)):
                        mapped = tables[mappings[mapping]]
                        head = name.removeprefix(_PREFIX) if name != "AutoModel" else ""
                        heads[head] = {
                            kind: statement if isinstance(statement, tuple) else (statement,)
                            for kind, statement in mapped.items()
                        }
                    case _:
                        pass
        case _:
            pass


def _rows(rows: list[ast.expr], tables: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    for row in rows:
        if isinstance(row, ast.Starred):  # the rows of another table
            names = [it.id for it in ast.walk(row) if isinstance(it, ast.Name) and it.id in tables]
            yield from tables[names[0]].items()
        else:
            name, value = ast.literal_eval(row)
            yield name, tuple(value) if isinstance(value, list | tuple) else value
