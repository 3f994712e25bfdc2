"""Checks that each of several processes runs, with what came out as JSON: the workers' side of `results_of`."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from burnlike.errors import BurnlikeError


def write_results(
    folder: Path, checks: Mapping[str, Callable[[], Any]] | Callable[[Path], Mapping[str, Callable[[], Any]]]
) -> None:
    """Write what each check returns, or the error that it raises, to `folder/found{rank}.json`; ends the process.

    Checks that need the folder or the group are given as a function of the folder.
    """
    dist.init_process_group("gloo")
    results: dict[str, Any] = {}
    for name, check in (checks(folder) if callable(checks) else checks).items():
        dist.barrier()
        try:
            results[name] = check()
        except BurnlikeError as error:
            results[name] = f"{type(error).__name__}: {error}"
        except (Exception, pytest.fail.Exception):
            results[name] = traceback.format_exc()
    (folder / f"found{dist.get_rank()}.json").write_text(json.dumps(results))
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # torch 2.13 sometimes waits for ever while it takes gloo's threads down
