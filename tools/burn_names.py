"""Write docs/reference/burn_names.md from the tables of names: `python -m tools.burn_names`."""

from burnlike._burn_names import INSTEAD, METHODS, RENAMED

from .pages import DOCS, table

PATH = DOCS / "reference" / "burn_names.md"
_HEAD = """# Burn's names here

A program that was written with Burn 0.22 finds the same names here: `LinearConfig` of burn-nn is
`burnlike.nn.LinearConfig`. The tables have those of burn-core, burn-nn, burn-optim, burn-train, burn-dataset and
burn-store that are called otherwise, and what a Python user takes in place of others. An `AttributeError` says it, too:
`burnlike.optim.LBFGSConfig` names `LbfgsConfig`. `make docs` writes this page from `burnlike/_burn_names.py`, and the
tests compare it with the public names of Burn's crates.
"""


def page() -> str:
    """The page."""
    parts = [_HEAD, "## Calls", table("", ("Burn", "burnlike"), [(a, f"`{a}`", f"`{b}`") for a, b in METHODS.items()])]
    for crate in dict.fromkeys((*RENAMED, *INSTEAD)):
        parts.append(f"## {crate[:1].upper()}{crate[1:]}" if " " in crate else f"## {crate}")
        if renamed := RENAMED.get(crate):
            shown = [(a, f"`{a}`", f"`burnlike.{b}`") for a, b in renamed.items()]
            parts.append(table("", ("Burn", "burnlike"), shown))
        if rows := INSTEAD.get(crate):
            shown = [(it, ", ".join(f"`{name}`" for name in it.replace(",", "").split()), text) for it, text in rows]
            parts.append(table("", ("not here", "take instead"), shown))
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(page())
