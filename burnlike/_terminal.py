"""Makes text from files and users safe for a terminal."""


def harmless(text: str) -> str:
    """The text with its lines and tabs, but with codes that a terminal would obey written as `\\x1b` and the like."""
    return "".join(it if it.isprintable() or it in "\n\t" else repr(it)[1:-1] for it in text)
