"""What `digits/` holds of a real run: `burnlike train digits`, on an AMD EPYC (Zen 5; family 26, model 2), 2 cores."""

import json
from pathlib import Path
from typing import Any

RUN = Path(__file__).with_name("digits")


def lines() -> list[dict[str, Any]]:
    """The lines of metrics, in the order of the run."""
    return [json.loads(it) for it in (RUN / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def facts(name: str) -> dict[str, Any]:
    return json.loads((RUN / f"{name}.json").read_text(encoding="utf-8"))
