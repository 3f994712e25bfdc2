"""Cases whose result by design is not Burn's, and those that Burn 0.22.1, which burnlike follows, has changed."""

from typing import Any

DEVIATIONS: dict[str, str] = {
    "Normalization/test_match_feature_size": "`NormalizationConfig`",
}
"""id -> the subject of the row of docs/deviations that says why."""

CHANGED_IN_0_22: dict[str, tuple[str, Any]] = {
    "AvgPool1d/derived_asymmetric_exclude_pad": (
        "padding that differs at the two ends is not counted either",
        [[[1.7055, 2.5086, 0.1051667], [-2.7915, -0.9458, 2.151333]]],
    ),
}
"""id -> what has changed, and what is expected since; the file has what Burn 0.21 gives."""
