"""Interrupter: the first signal is noted, the second stops at once, and handlers are put back."""

import os
import signal
import threading

import pytest

from burnlike.train import Interrupted, Interrupter
from burnlike.train.learner.stopping import EarlySignals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_the_second_stops_at_once(number: int) -> None:
    with Interrupter() as interrupter:
        interrupter.check()
        assert not interrupter.stopped
        os.kill(os.getpid(), number)
        assert interrupter.stopped
        with pytest.raises(Interrupted) as caught:
            interrupter.check()
        assert caught.value.signal == number
        assert str(caught.value) == signal.Signals(number).name
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), number)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interrupter():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_outside_the_main_thread_it_can_still_be_told_to_stop() -> None:
    stopped = []

    def work() -> None:
        with Interrupter() as interrupter:
            interrupter.stop()
            stopped.append(interrupter.stopped)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=60)
    assert stopped == [True]


def test_a_signal_of_the_batch_system_during_the_start_waits_for_the_run() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with EarlySignals():
        os.kill(os.getpid(), signal.SIGUSR1)
        with Interrupter() as interrupter:
            assert interrupter.asked == signal.SIGUSR1
    assert signal.getsignal(signal.SIGUSR1) == before
    with Interrupter() as interrupter:
        assert not interrupter.stopped
