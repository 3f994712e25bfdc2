"""Every public method of the typed tensor has a row in the table of the API, and so a case with numbers."""

import json
from pathlib import Path

from burnlike import Tensor

OF_TORCH = {"clone", "from_full_precision", "item", "numpy", "pin_memory", "to_full_precision"}
"""Methods that Burn does not have; tests of their own have them."""


def test_every_method_is_in_the_table() -> None:
    methods = {
        name
        for owner in Tensor.__mro__
        if owner.__module__.startswith("burnlike.tensor")
        for name, found in vars(owner).items()
        if not name.startswith("_") and (callable(found) or isinstance(found, staticmethod | classmethod))
    }
    rows = {row["name"] for row in json.loads((Path(__file__).parent / "api_table.json").read_text())}
    assert methods - rows == OF_TORCH
