"""The names of element types: Burn's short one and torch's long one. Either is taken wherever a user writes one."""

FLOATS = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
"""Short name -> torch's."""
INTS = {f"{short}{bits}": f"{long}{bits}" for short, long in (("i", "int"), ("u", "uint")) for bits in (64, 32, 16, 8)}
"""Short name -> torch's."""
_OTHER = FLOATS | INTS
_OTHER |= {long: short for short, long in _OTHER.items()}


def other_name(name: str) -> str | None:
    """The other name of an element type, None for what is none.

    Example:
        >>> other_name("bf16"), other_name("float32"), other_name("fast")
        ('bfloat16', 'f32', None)
    """
    return _OTHER.get(name)
