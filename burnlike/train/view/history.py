"""The points of a plot that grows: a whole history in few points, and a window over the last ones (Burn's plots)."""

Point = tuple[float, float]


class FullHistory:
    """All of a history in at most `max_samples` points of each split: when they are more, every other one is dropped.

    Splits share the x axis: each value of any of them is one further on.
    """

    def __init__(self, max_samples: int) -> None:
        self.next_x = 0
        self._max_samples = max_samples
        self._splits: dict[str, _Thinned] = {}

    def push(self, split: str, value: float | None, x: float | None = None) -> None:
        """Add a value; None leaves a gap.

        Args:
            x: where it stands; default: one further than the last.
        """
        place, self.next_x = self.next_x, self.next_x + 1
        if value is not None:
            self._splits.setdefault(split, _Thinned(self._max_samples)).push(place, (place if x is None else x, value))

    @property
    def points(self) -> dict[str, list[Point]]:
        return {split: it.points for split, it in self._splits.items()}


class _Thinned:
    """Points whose number is a multiple of a step that doubles when they are too many."""

    def __init__(self, most: int) -> None:
        self.points: list[Point] = []
        self._most = most
        self._step = 1

    def push(self, number: int, point: Point) -> None:
        if number % self._step:
            return
        self.points.append(point)
        if len(self.points) > self._most:
            self.points = self.points[::2]
            self._step *= 2


class RecentHistory:
    """The points of the last `max_samples` values of all splits together."""

    def __init__(self, max_samples: int) -> None:
        self.next_x = 0
        self._max_samples = max_samples
        self._points: dict[str, list[Point]] = {}

    def push(self, split: str, value: float | None) -> None:
        """Add a value; None leaves a gap."""
        x, self.next_x = self.next_x, self.next_x + 1
        if value is not None:
            self._points.setdefault(split, []).append((x, value))
        first = x - self._max_samples
        for name, points in self._points.items():
            if points[0][0] < first:
                self._points[name] = [point for point in points if point[0] >= first]

    @property
    def points(self) -> dict[str, list[Point]]:
        return {split: points for split, points in self._points.items() if points}
