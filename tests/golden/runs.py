"""Training runs that Burn made, to be made again."""

import re
from collections.abc import Iterator

from .folder import Golden
from .later import check_layers
from .modules import Case
from .outcomes import CheckError


def run_cases(golden: Golden) -> Iterator[Case]:
    """The run of a values file with `steps`: made again once the layers of its model are there."""

    def check() -> None:
        model = str(golden.values.get("model"))
        check_layers(re.findall(r"\w+", f"{model} {golden.values.get('loss')}"))
        raise CheckError(f"nothing in the run is of later work, so that it must be made again: {model}")

    yield "training run", check
