"""How long processes wait for one another, of what each noted."""

from burnlike.train.parallel.watch import ProcessTimes, own_times


def own(ends: list[int], **begun: int) -> ProcessTimes:
    return ProcessTimes("host", 1.0, ends, begun, 0.0)


def test_a_process_waits_from_its_own_beginning_of_an_exchange_to_the_last_one() -> None:
    """Of exchanges that overlap, once; of those that only some have, for these; the second step has none."""
    first = own([0, 100, 130], a=10, b=15, c=80)
    second = own([0, 100, 140], a=60, b=70, c=80, d=120)
    third = own([0, 100, 140], d=110)
    assert own_times([first, second, third]) == [[100 - (70 - 10), 30], [100, 40], [100, 30]]


def test_a_wait_over_the_end_of_a_step_counts_in_both() -> None:
    assert own_times([own([0, 100, 200], a=90), own([0, 100, 200], a=150)]) == [[90, 50], [100, 100]]
