"""Speed, processors, memory."""

import copy
import pickle
import time
import warnings
from types import SimpleNamespace

import psutil
import pytest
import torch

from burnlike.train import metrics as m


class Clock:
    """What `time.perf_counter` gives, set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_iteration_speed_is_that_of_the_whole_epoch(clock: Clock) -> None:
    metric = m.IterationSpeed()
    assert metric.compute().isnan()
    for seconds in (5, 1, 2, 5):
        clock.now += seconds
        metric.update(torch.rand(3), torch.rand(3))
    assert metric.compute() == 3 / 8
    assert (metric.name, metric.unit, metric.higher_is_better) == ("Iteration Speed", "iter/sec", True)
    metric.reset()
    clock.now += 50  # no time of an epoch
    for _ in range(3):
        clock.now += 0.25
        metric.update()
    assert metric.compute() == 4


def test_time_between_a_save_and_a_restore_does_not_count(clock: Clock) -> None:
    metric = m.IterationSpeed()
    for _ in range(3):
        metric.update()
        clock.now += 1
    state, pickled = m.metric_state(metric), pickle.dumps(metric)
    clock.now += 1000
    restored = m.IterationSpeed()
    m.restore_metric(restored, state)
    for again in (restored, pickle.loads(pickled), copy.deepcopy(metric)):
        for _ in range(2):
            again.update()
            clock.now += 0.5
        assert again.compute() == 3 / 2.5
        clock.now += 1000


def test_cpu_use_is_a_mean_over_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    uses = iter([99.0, 50.0, 20.0])
    monkeypatch.setattr(psutil, "cpu_percent", lambda: next(uses))
    metric = m.CpuUse()
    metric.update()  # begins
    clock.now += 0.1
    metric.update()  # too early for a look
    clock.now += 0.9
    metric.update()
    clock.now += 3
    metric.update()
    assert metric.compute().item() == pytest.approx((50 * 1 + 20 * 3) / 4)
    assert (metric.name, metric.unit, metric.higher_is_better) == ("CPU Usage", "%", False)


def test_cpu_use_of_this_machine() -> None:
    metric = m.CpuUse()
    metric.update()
    busy_until = time.perf_counter() + 0.5
    while time.perf_counter() < busy_until:
        pass
    metric.update()
    used_by_the_loop = 100 / psutil.cpu_count()  # which has a CPU at least for half of the time
    assert 0.5 * used_by_the_loop <= metric.compute() <= 100


def test_cpu_memory_is_the_most_that_was_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = m.CpuMemory()
    assert metric.compute().isnan()
    free = iter([30e9, 12.5e9, 40e9])
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=64e9, available=next(free)))
    for _ in range(3):
        metric.update(None, None)
    assert metric.compute() == 51.5
    other = m.CpuMemory()
    other.merge_state(metric)
    assert other.compute() == 51.5
    assert (metric.name, metric.unit) == ("CPU Memory", "Gb")


def test_cpu_memory_of_this_machine() -> None:
    metric = m.CpuMemory()
    metric.update()
    assert 0 < metric.compute() * 1e9 <= psutil.virtual_memory().total


@pytest.mark.parametrize("config", [m.CudaUseConfig(), m.CudaMemoryConfig()], ids=lambda it: type(it).__name__)
def test_without_a_device_the_value_is_nan_and_a_warning_says_so(
    config: m.CudaUseConfig | m.CudaMemoryConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match=r"Cuda\w+: there is no CUDA device; its value is NaN") as caught:
        metric = config.init()
    assert len(caught) == 1
    metric.update(torch.rand(2), torch.rand(2))
    assert metric.compute().isnan()


def test_without_its_package_cuda_use_is_nan_and_a_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def utilization() -> int:
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    with pytest.warns(UserWarning, match=r"CudaUse: .*nvidia-ml-py"):
        metric = m.CudaUse()
    metric.update()
    assert metric.compute().isnan()


def test_cuda_use_and_memory_are_those_that_the_driver_gives(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([30e9, 10e9, 20e9])
    uses = iter([0, 40, 100])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "utilization", lambda: next(uses))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (next(free), 80e9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use, memory = m.CudaUse(), m.CudaMemory()
    for _ in range(3):
        use.update()
        memory.update()
        clock.now += 1
    assert use.compute() == 70
    assert memory.compute() == 70
