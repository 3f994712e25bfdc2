"""The part of JSON Schema draft 7 that burnlike's schemas use, to check values against them."""

import math
import re
from typing import Any

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_valid(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether a value is one that the schema allows; a keyword that is not known here is a KeyError."""
    if "$ref" in schema:
        found: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[int(step) if isinstance(found, list) else step]
        return is_valid(value, found, root)
    return all(CHECKS[key](value, limit, schema, root) for key, limit in schema.items())


def _is_of_type(value: Any, name: str) -> bool:
    if name in ("integer", "number"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and (name == "number" or float(value).is_integer())
    return isinstance(value, TYPES[name])


def _is_number(value: Any) -> bool:
    return _is_of_type(value, "number")


def _items(value: Any, items: Any, root: Any) -> bool:
    if not isinstance(value, list):
        return True
    schemas = items if isinstance(items, list) else [items] * len(value)
    return all(is_valid(item, schema, root) for item, schema in zip(value, schemas, strict=False))


def _additional(value: Any, allowed: Any, schema: Any, root: Any) -> bool:
    extra = (
        [
            item
            for key, item in value.items()
            if key not in schema.get("properties", {})
            and not any(re.search(it, key) for it in schema.get("patternProperties", {}))
        ]
        if type(value) is dict
        else []
    )
    return all(allowed is not False and is_valid(item, allowed, root) for item in extra)


def _same(value: Any, other: Any) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)


CHECKS = {
    **dict.fromkeys(["$schema", "title", "description", "default", "definitions"], lambda *_: True),
    "type": lambda value, name, *_: _is_of_type(value, name),
    "const": lambda value, other, *_: _same(value, other),
    "enum": lambda value, others, *_: any(_same(value, other) for other in others),
    "anyOf": lambda value, schemas, _, root: any(is_valid(value, schema, root) for schema in schemas),
    "allOf": lambda value, schemas, _, root: all(is_valid(value, schema, root) for schema in schemas),
    "if": lambda value, condition, schema, root: is_valid(
        value, schema["then" if is_valid(value, condition, root) else "else"], root
    ),
    **dict.fromkeys(["then", "else"], lambda *_: True),
    "not": lambda value, schema, _, root: not is_valid(value, schema, root),
    "patternProperties": lambda value, patterns, _, root: (
        type(value) is not dict
        or all(
            is_valid(item, schema, root)
            for pattern, schema in patterns.items()
            for key, item in value.items()
            if re.search(pattern, key)
        )
    ),
    "propertyNames": lambda value, schema, _, root: (
        type(value) is not dict or all(is_valid(key, schema, root) for key in value)
    ),
    "required": lambda value, names, *_: type(value) is not dict or set(names) <= set(value),
    "properties": lambda value, schemas, _, root: (
        type(value) is not dict
        or all(is_valid(value[key], schemas[key], root) for key in value.keys() & schemas.keys())
    ),
    "additionalProperties": _additional,
    "items": lambda value, items, _, root: _items(value, items, root),
    "minItems": lambda value, size, *_: not isinstance(value, list) or len(value) >= size,
    "maxItems": lambda value, size, *_: not isinstance(value, list) or len(value) <= size,
    "minProperties": lambda value, size, *_: not isinstance(value, dict) or len(value) >= size,
    "maxProperties": lambda value, size, *_: not isinstance(value, dict) or len(value) <= size,
    "minLength": lambda value, size, *_: not isinstance(value, str) or len(value) >= size,
    "maxLength": lambda value, size, *_: not isinstance(value, str) or len(value) <= size,
    "pattern": lambda value, pattern, *_: not isinstance(value, str) or bool(re.search(pattern, value)),
    "minimum": lambda value, bound, *_: not _is_number(value) or value >= bound,
    "maximum": lambda value, bound, *_: not _is_number(value) or value <= bound,
    "exclusiveMinimum": lambda value, bound, *_: not _is_number(value) or value > bound,
    "exclusiveMaximum": lambda value, bound, *_: not _is_number(value) or value < bound,
    "multipleOf": lambda value, of, *_: not _is_number(value) or math.fmod(value, of) == 0,
}
