"""Models as crates of Rust for Burn."""

from pathlib import Path

from ...._outputs import Output

CARGO = ("Cargo.lock", "target")
"""What cargo makes in a crate."""


def crate_output(out: Path | Output) -> Output:
    """The place of a crate, whose next export keeps what cargo has made there."""
    output = Output.of(out, "export")
    output.kept = CARGO
    return output
