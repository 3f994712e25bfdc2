"""The fields of config classes, read from msgspec."""

from functools import cache

import msgspec.inspect as mi

from .registry import ConfigType

TAG_FIELD = "type"


@cache
def fields_of(cls: ConfigType) -> dict[str, mi.Field]:
    """The fields of a struct by the key they have in YAML."""
    described = mi.type_info(cls)
    assert isinstance(described, mi.StructType)
    return {field.encode_name: field for field in described.fields}
