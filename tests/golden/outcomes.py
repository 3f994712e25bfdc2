"""Cases with their verdicts."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


class CheckError(AssertionError):
    """What was found is not what Burn wrote or computed."""


@dataclass(slots=True)
class Outcomes:
    """Runs cases, prints those that don't pass, and counts all.

    Attributes:
        print: where the lines go.
        counts: `passed` and `failed`; none is skipped.
        lines: what was printed.
    """

    print: Callable[[str], None] = print
    counts: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)

    def run(self, name: str, check: Callable[[], object]) -> None:
        """Run one case; whatever it raises is its failure."""
        try:
            check()
        except Exception as error:
            kind = "" if isinstance(error, CheckError) else f"{type(error).__name__}: "
            self._say("failed", name, kind + " ".join(str(error).split())[:1000])
        else:
            self.counts["passed"] += 1

    def fail(self, name: str, reason: str) -> None:
        """Count a case that can't even be run."""
        self._say("failed", name, reason)

    def summary(self) -> str:
        """The last line."""
        return ", ".join(f"{self.counts[verdict]} {verdict}" for verdict in ("passed", "failed", "skipped"))

    def _say(self, verdict: str, name: str, reason: str) -> None:
        self.counts[verdict] += 1
        self.lines.append(f"{verdict.upper()} {name}: {reason}")
        self.print(self.lines[-1])


def expect(condition: object, message: str) -> None:
    """Fail the case with `message` unless `condition` holds.

    Raises:
        CheckError: it does not hold.
    """
    if not condition:
        raise CheckError(message)
