"""Cases whose result by design is not Burn's: id -> reason. Each is named in docs/deviations.md."""

DEVIATIONS: dict[str, str] = {}
