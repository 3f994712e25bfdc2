"""Writes the JSON Schema (draft 7, which editors know best) of a config class and of every type that it can hold."""

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec.inspect as mi

from burnlike._dtypes import other_name

from . import registry
from .emit import to_plain
from .registry import TAG_FIELD, ConfigType, default_of, fields_of, imported, inlined_in, is_role, members_of, tag_of
from .root_keys import EXTENSION, INPUTS
from .tree import DEFAULTS, FROM, MODEL

Schema = dict[str, Any]

_REFERENCE = {
    "title": "Reference",
    "description": "Another value, `${path.to.a.value}`, or an environment variable, `${env:NAME}`.",
    "type": "string",
    "pattern": r"\$\{",
}
_DIGITS = {
    "title": "Digits",
    "description": "A number with underscores between digits, 50_000, which is a text for other readers of YAML.",
    "type": "string",
    "pattern": r"^[-+]?[0-9]+(_[0-9]+)+$",
}
_FILES = {
    "description": "Files, or names of shipped configs, over whose values this file stands; relative to this file.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
}
_MODEL_FILE = {
    "title": "ModelFile",
    "description": "The model of another file, and what is put over it.",
    "type": "object",
    "properties": {
        FROM: {
            "description": "A file of a model, or of a training, relative to this one; or a shipped config by name.",
            "type": "string",
            "minLength": 1,
            "not": {"pattern": r"\$\{"},
        }
    },
    "required": [FROM],
}

_SHAPE = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer", "minimum": 0}}]}
_INPUTS = {
    "description": "What `burnlike check --shapes` runs the model with: sizes, or a text such as `int64:8,128`.",
    "anyOf": [*_SHAPE["anyOf"], {"type": "array", "items": _SHAPE}, {"type": "object", "additionalProperties": _SHAPE}],
}
_SHORT = 80


def json_schema(root: ConfigType) -> Schema:
    """The schema of a YAML file whose root is `root`; open unions list the types that are imported now.

    A file with `defaults:` may lack any key, as the other files may have it, so each type is in the schema twice.

    A schema can't express all that the reader checks: rules across fields, and that 3.0 is no int, are left out.
    """
    registry.load_built_in()
    schemas: dict[str, Schema] = {
        "Reference": _REFERENCE,
        "Digits": _DIGITS,
        "Inputs": _INPUTS,
        "ModelFile": _MODEL_FILE,
    }
    whole = _Definitions(schemas, root)
    partial = _Definitions(schemas, root, whole)
    complete, incomplete = whole.refer(root), partial.refer(root)
    _share(schemas)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": root.__name__,
        "properties": {DEFAULTS: _FILES},
        "if": {"required": [DEFAULTS]},
        "then": incomplete,
        "else": complete,
        "definitions": schemas,
    }


def _share(schemas: dict[str, Schema]) -> None:
    """Make a definition of each schema that several fields have, so that editors have less to read."""
    fields = [
        (properties, key) for schema in schemas.values() for properties in _properties(schema) for key in properties
    ]
    targets = [_target(schemas, properties[key]) for properties, key in fields]
    texts = [json.dumps(target, sort_keys=True) for target in targets]
    counts: Counter[str] = Counter()
    for (properties, key), target, text in zip(fields, targets, texts, strict=True):
        counts[text] += target is properties[key]  # a reference is no second definition
    names: dict[str, str] = {}
    for (properties, key), target, text in zip(fields, targets, texts, strict=True):
        if counts[text] > 1 and len(text) > _SHORT:
            name = names.setdefault(text, f"field.{len(names)}")
            schemas[name] = target
            properties[key] = {"$ref": f"#/definitions/{name}"}


def _target(schemas: dict[str, Schema], schema: Schema) -> Schema:
    """The schema that a reference to a field of another definition stands for; any other schema itself."""
    place = schema.get("$ref", "")
    if "/properties/" not in place:
        return schema
    target: Any = {"definitions": schemas}
    for step in place.removeprefix("#/").split("/"):
        target = target[int(step)] if isinstance(target, list) else target[step]
    return _target(schemas, target)


def _properties(schema: Any) -> Iterator[Schema]:
    """The fields of a schema and of those in it, the innermost first."""
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _properties(part)
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        yield schema["properties"]


def _names_of_types(item: mi.Type) -> list[str]:
    """The types that an item of a list may name in place of a mapping: those without a key that has to be there."""
    if not (isinstance(item, mi.StructType) and is_role(item.cls)):
        return []
    return [tag for tag, cls in imported(item.cls).items() if not any(it.required for it in fields_of(cls).values())]


class _Definitions:
    """The schemas of structs by class name, each made once, so that types may hold themselves."""

    def __init__(self, schemas: dict[str, Schema], root: ConfigType, whole: "_Definitions | None" = None) -> None:
        """Start without any, and add them to `schemas`; keys for anchors may stand in the `root` of the file.

        With the definitions of `whole` files, those of a file that has `defaults` and need not be whole: no key is
        required, and what is the same refers to these.
        """
        self.schemas = schemas
        self.names: dict[ConfigType, str] = {}
        self.root = root
        self.whole = whole

    def refer(self, cls: ConfigType) -> Schema:
        """A reference to what may stand where a `cls` is due: the class itself, or those below it by `type:`."""
        if is_role(cls):
            return {"allOf": [self._define(cls, self._role)]}
        choices = self._below(cls)
        itself = self._define(cls, self._struct)
        return {"anyOf": [itself, *choices]} if choices else {"allOf": [itself]}

    def _define(self, cls: ConfigType, make: Callable[[ConfigType], Schema]) -> Schema:
        if cls not in self.names:
            prefix = "partial." if self.whole else ""
            name = f"{prefix}{cls.__name__}"
            if name in self.schemas:
                name = f"{prefix}{cls.__module__}.{cls.__qualname__}"
            self.names[cls] = name
            # There before it is filled, so that a type within refers to it instead of making it again.
            self.schemas[name] = {}
            self.schemas[name].update(make(cls))
        return {"$ref": f"#/definitions/{self.names[cls]}"}

    def _below(self, cls: ConfigType) -> list[Schema]:
        below = [self._define(value, self._struct) for value in imported(cls).values() if value is not cls]
        return below if self.whole else [{"allOf": [it, {"required": [TAG_FIELD]}]} for it in below]

    def _role(self, cls: ConfigType) -> Schema:
        schema = {"title": cls.__name__, "description": documentation(cls)[0], "type": "object"}
        choices = self._below(cls)
        return schema | ({"anyOf": choices} if choices else {})

    def _struct(self, cls: ConfigType) -> Schema:
        return self._with_inlined(cls, inlined) if (inlined := inlined_in(cls)) else self._keys(cls)

    def _with_inlined(self, cls: ConfigType, inlined: str) -> Schema:
        """The class's own keys alone, or beside those of each class that the inlined field may have."""
        alone = self._keys(cls)
        alone["properties"].pop(inlined)
        roles = [it.cls for it in members_of(fields_of(cls)[inlined].type) if isinstance(it, mi.StructType)]
        choices = [alone]
        here = f"#/definitions/{self.names[cls]}/anyOf/0/properties"
        beside = {key: {"$ref": f"{here}/{key}"} for key in alone["properties"]}
        for kind in [kind for role in roles for kind in imported(role).values() if not inlined_in(kind)]:
            place = self._define(kind, self._struct)["$ref"]
            schema = self.schemas[self.names[kind]] or self._keys(kind)
            fields = schema["properties"].keys() & {TAG_FIELD, *fields_of(kind)}
            keys = {key: {"$ref": f"{place}/properties/{key}"} for key in schema["properties"] if key in fields}
            required = [] if self.whole else [*schema["required"], TAG_FIELD]
            closed = {"required": required, "additionalProperties": False}
            choices.append({"title": kind.__name__, "type": "object", "properties": keys | beside} | closed)
        return {"title": alone["title"], "anyOf": choices}

    def _keys(self, cls: ConfigType) -> Schema:
        about, notes = documentation(cls)
        tag = tag_of(cls)
        properties: dict[str, Schema] = {} if tag is None else {TAG_FIELD: {"const": tag}}
        required = []
        for key, field in fields_of(cls).items():
            properties[key] = self._or_reference(field.type)
            # A formula that has the field says what it is.
            if note := notes.get(field.name) or (about if re.search(rf"\b{field.name}\b", about) else None):
                properties[key]["description"] = note
            if field.required and self.whole is None:
                required.append(key)
            else:
                properties[key] |= {} if field.required else _default(field)
        model = fields_of(cls).get(MODEL) if tag is None and issubclass(cls, self.root) else None
        if model is not None and isinstance(model.type, mi.StructType):
            properties[MODEL]["anyOf"].append({"$ref": "#/definitions/ModelFile"})
        schema: Schema = {"title": cls.__name__, "description": about, "type": "object", "properties": properties}
        if self.whole:
            del schema["description"]
            schema["properties"] = {key: self._shared(cls, key, property_) for key, property_ in properties.items()}
        if issubclass(cls, self.root):
            schema["patternProperties"] = {f"^{EXTENSION}": {}}
            schema["properties"] |= {DEFAULTS: _FILES} if self.whole else {}
            # A field of this name stays.
            if self.root.__name__ == "ModuleConfig" and (INPUTS not in fields_of(cls) or tag_of(cls) == "Graph"):
                schema["properties"][INPUTS] = {"$ref": "#/definitions/Inputs"}
        return schema | {"required": required, "additionalProperties": False}

    def _shared(self, cls: ConfigType, key: str, schema: Schema) -> Schema:
        """A reference to the same key of the whole definition, where that is the same and longer than a reference."""
        name = self.whole.names.get(cls) if self.whole else None
        whole = self.schemas.get(name or "", {}).get("properties", {}).get(key)
        is_shared = whole is not None and len(str(schema)) >= _SHORT and whole == schema
        return {"$ref": f"#/definitions/{name}/properties/{key}"} if is_shared else schema

    def _or_reference(self, wanted: mi.Type) -> Schema:
        """The schema of a value, which a text with `${...}` may stand for, and for a number one with underscores."""
        schema = self.of(wanted)
        if not schema or schema == {"type": "string"}:
            return schema
        members = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
        is_number = any(member.get("type") in ("integer", "number") for member in members)
        texts = ["Reference", "Digits"] if is_number else ["Reference"]
        return {"anyOf": [*members, *({"$ref": f"#/definitions/{name}"} for name in texts)]}

    def of(self, wanted: mi.Type) -> Schema:
        """The schema of one field's type."""
        match wanted:
            case mi.Metadata():
                return self.of(wanted.type) | (wanted.extra_json_schema or {})
            case mi.UnionType():
                return {"anyOf": [self.of(member) for member in wanted.types]}
            case mi.StructType():
                return self.refer(wanted.cls)
            case mi.IntType() | mi.FloatType():
                kind = "integer" if isinstance(wanted, mi.IntType) else "number"
                bounds = {"minimum": wanted.ge, "exclusiveMinimum": wanted.gt, "maximum": wanted.le}
                bounds |= {"exclusiveMaximum": wanted.lt, "multipleOf": wanted.multiple_of}
                return {"type": kind} | _without_none(bounds)
            case mi.StrType():
                sizes = {"minLength": wanted.min_length, "maxLength": wanted.max_length}
                return {"type": "string"} | _without_none(sizes | {"pattern": wanted.pattern})
            case mi.BoolType():
                return {"type": "boolean"}
            case mi.NoneType():
                return {"type": "null"}
            case mi.LiteralType() | mi.EnumType():
                values = wanted.values if isinstance(wanted, mi.LiteralType) else [it.value for it in wanted.cls]
                others = [it for it in map(other_name, (value for value in values if isinstance(value, str))) if it]
                return {"enum": [*values, *(it for it in others if it not in values)]}  # of element types
            case mi.ListType() | mi.VarTupleType():
                sizes = {"minItems": wanted.min_length, "maxItems": wanted.max_length}
                items = self._or_reference(wanted.item_type)
                if names := _names_of_types(wanted.item_type):
                    items = {"anyOf": [items, {"enum": names}]}
                return {"type": "array", "items": items} | _without_none(sizes)
            case mi.TupleType():
                items = [self._or_reference(item) for item in wanted.item_types]
                return {"type": "array", "items": items, "minItems": len(items), "maxItems": len(items)}
            case mi.DictType():
                sizes = {"minProperties": wanted.min_length, "maxProperties": wanted.max_length}
                return {
                    "type": "object",
                    "additionalProperties": self._or_reference(wanted.value_type),
                } | _without_none(sizes)
        return {}


def _default(field: mi.Field) -> Schema:
    """The default as JSON has it; left out where it holds an infinity."""
    plain = to_plain(default_of(field))
    try:
        json.dumps(plain, allow_nan=False)
    except ValueError:
        return {}
    return {"default": plain}


def _without_none(values: Schema) -> Schema:
    return {key: value for key, value in values.items() if value is not None}


def documentation(cls: type) -> tuple[str, dict[str, str]]:
    """The first paragraph of a class's docstring, and the text of each field under its `Attributes:`, or a base's."""
    about = " ".join(inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].split())
    notes: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = inspect.cleandoc(base.__doc__ or "")
        section = re.search(r"^Attributes:\n((?:[ ]+.*\n?|\n)*)", text, re.MULTILINE)
        name = ""
        for line in section[1].splitlines() if section else ():
            if match := re.match(r" {4}(\w+)(?: \([^)]*\))?: (.*)", line):
                name = match[1]
                notes[name] = match[2].strip()
            elif name and line.startswith(" " * 8):
                notes[name] += " " + line.strip()
    return about, notes
