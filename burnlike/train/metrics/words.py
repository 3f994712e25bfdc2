"""Numbers in the names of metrics, as Burn writes them."""


def number_text(value: float) -> str:
    """The shortest text of a number: `255`, `0.5`."""
    return str(int(value)) if value.is_integer() else repr(value)
