"""What holds for all metrics: values of whole epochs, states, edge cases."""

import copy
import math
import pickle
import warnings

import pytest
import torch

from burnlike.config import MetricConfig, registry
from burnlike.train.metrics import EpochMetric, metric_state, restore_metric

from .samples import CASES, SYSTEM, Case, fed, values, whole

EACH = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
TEXTS = ("CharErrorRate", "WordErrorRate", "Bleu", "RougeL", "RougeN")
OF_NUMBERS = {name: case for name, case in CASES.items() if name not in (*TEXTS, "Loss", "LearningRate")}
OF_TENSORS = {name: case for name, case in CASES.items() if name not in ("Loss", "LearningRate")}
OF_BATCHES = {name: case for name, case in CASES.items() if name != "LearningRate"}
OF_FLOATS = {name: case for name, case in CASES.items() if name not in TEXTS}


def same(metric: EpochMetric, other: EpochMetric) -> bool:
    return torch.equal(values(metric), values(other))


def test_every_metric_has_a_case() -> None:
    registry.load_built_in()
    ours = {it for it in registry.imported(MetricConfig).values() if it.__module__.startswith("burnlike.")}
    assert ours == {type(case.config) for case in CASES.values()} | {*SYSTEM}


@EACH
def test_it_has_name_unit_and_direction(case: Case) -> None:
    metric = case.config.init()
    assert isinstance(metric.name, str)
    assert metric.name
    assert metric.unit in ("%", "dB", None)
    assert metric.higher_is_better is not None or "ConfusionStats" in type(metric).__name__
    named = type(case.config).from_yaml(f"type: {type(metric).__name__}\nname: mine").init()
    assert named.name == "mine"


@pytest.mark.parametrize("case", OF_NUMBERS.values(), ids=OF_NUMBERS)
def test_batches_of_any_sizes_have_the_value_of_their_items(case: Case) -> None:
    batches = case.batches()
    expected = values(fed(case.config, [whole(batches)]))
    assert not expected.isnan().any()
    torch.testing.assert_close(values(fed(case.config, batches)), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("case", OF_BATCHES.values(), ids=OF_BATCHES)
def test_it_is_not_the_mean_of_the_values_of_batches(case: Case) -> None:
    parts = torch.stack([values(fed(case.config, [batch])) for batch in case.batches()])
    assert not torch.allclose(values(fed(case.config, case.batches())), parts.mean(0), rtol=1e-4)


@EACH
def test_before_an_update_it_is_nan_without_a_warning(case: Case) -> None:
    metric = case.config.init()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = values(metric)
        reset = fed(case.config, case.batches())
        reset.reset()
    counts = type(metric).__name__ == "ConfusionStats"
    assert (found == 0).all() if counts else found.isnan().all()
    assert torch.equal(values(reset), found) or values(reset).isnan().all()


@EACH
def test_a_state_goes_on_exactly(case: Case) -> None:
    batches = case.batches()
    expected = values(fed(case.config, batches))
    for done in range(len(batches) + 1):
        before = fed(case.config, batches[:done])
        state = metric_state(before)
        before.update(*batches[0])  # the state is a copy
        restored = fed(case.config, batches[1:2])
        restore_metric(restored, state)
        assert metric_state(restored).keys() == state.keys()
        for batch in batches[done:]:
            restored.update(*batch)
        assert torch.equal(values(restored), expected)
        restore_metric(before, state)  # nor does a metric change the state that it goes on from
        for batch in batches[done:]:
            before.update(*batch)
        assert torch.equal(values(before), expected)


@EACH
def test_states_of_parts_are_merged(case: Case) -> None:
    batches = case.batches()
    for done in range(len(batches) + 1):
        first, last = fed(case.config, batches[:done]), fed(case.config, batches[done:])
        last.merge_state(first)
        torch.testing.assert_close(values(last), values(fed(case.config, batches)), rtol=1e-12, atol=0)


@EACH
def test_copies_and_pickles_go_on(case: Case) -> None:
    *batches, last = case.batches()
    metric = fed(case.config, batches)
    for again in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()):
        again.update(*last)
        assert torch.equal(values(again), values(fed(case.config, [*batches, last])))
    fresh = pickle.loads(pickle.dumps(case.config.init()))
    assert not values(fresh).nansum()  # without a warning, too


@EACH
def test_forward_gives_the_value_of_the_batch(case: Case) -> None:
    metric, batches = case.config.init(), case.batches()
    for batch in batches:
        found = metric(*batch)
        found = torch.stack([*found.values()]).flatten() if isinstance(found, dict) else found.reshape(1)
        assert torch.equal(found, values(fed(case.config, [batch])))
    torch.testing.assert_close(values(metric), values(fed(case.config, batches)), rtol=1e-12, atol=0)


@pytest.mark.parametrize("case", OF_BATCHES.values(), ids=OF_BATCHES)
def test_a_batch_without_items_changes_nothing(case: Case) -> None:
    batches = case.batches()
    empty = case.batches((0,))[0]
    for place in range(len(batches) + 1):
        fed_too = fed(case.config, [*batches[:place], empty, *batches[place:]])
        assert torch.equal(values(fed_too), values(fed(case.config, batches)))
    alone = values(fed(case.config, [empty]))
    assert alone.isnan().all() or (alone == 0).all()


@pytest.mark.parametrize("case", OF_FLOATS.values(), ids=OF_FLOATS)
def test_nan_among_the_predictions_makes_it_nan(case: Case) -> None:
    (predictions, targets), *batches = case.batches()
    predictions = predictions.clone()
    predictions.view(-1)[-1] = math.nan
    found = values(fed(case.config, [(predictions, targets), *batches]))
    assert found.isnan().all()


@pytest.mark.parametrize("case", OF_FLOATS.values(), ids=OF_FLOATS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_other_floats_are_computed_in_enough_digits(case: Case, dtype: torch.dtype) -> None:
    def to(value, dtype):
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    batches = [tuple(to(to(value, torch.bfloat16), dtype) for value in batch) for batch in case.batches()]
    exact = [tuple(to(value, torch.float64) for value in batch) for batch in batches]
    torch.testing.assert_close(values(fed(case.config, batches)), values(fed(case.config, exact)), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("case", OF_TENSORS.values(), ids=OF_TENSORS)
def test_updates_wait_for_no_device(case: Case) -> None:
    """Tensors without values can't be waited for."""
    metric = case.config.init()
    for batch in case.batches():
        metric.update(*(it.to("meta") for it in batch))
    states = metric_state(metric).values()
    assert {it.device.type for state in states for it in (state if isinstance(state, list) else [state])} == {"meta"}


@EACH
def test_predictions_with_a_history_leave_none(case: Case) -> None:
    batches = [
        tuple(it.clone().requires_grad_() if torch.is_tensor(it) and it.is_floating_point() else it for it in batch)
        for batch in case.batches()
    ]
    metric = fed(case.config, batches)
    states = metric.metric_state.values()
    assert not any(it.requires_grad for state in states for it in (state if isinstance(state, list) else [state]))
    assert not values(metric).requires_grad


@EACH
def test_later_changes_of_a_batch_don_t_count(case: Case) -> None:
    metric = case.config.init()
    for batch in case.batches():
        reused = tuple(it.clone() if torch.is_tensor(it) else it for it in batch)
        metric.update(*reused)
        for it in reused:
            if torch.is_tensor(it):
                it.zero_()
    assert same(metric, fed(case.config, case.batches()))


@pytest.mark.cuda
@pytest.mark.parametrize("case", OF_TENSORS.values(), ids=OF_TENSORS)
def test_on_a_device_updates_do_not_wait_and_values_are_those_of_the_cpu(case: Case) -> None:
    metric = case.config.init()
    first, *others = [tuple(it.to("cuda") for it in batch) for batch in case.batches()]
    metric.update(*first)  # moves the states
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in others:
            metric.update(*batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    found = values(metric)
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), values(fed(case.config, case.batches())), rtol=1e-5, atol=1e-6)
    restored = case.config.init()
    restore_metric(restored, metric_state(metric))  # on the CPU, as a new metric is
    torch.testing.assert_close(values(restored), found.cpu(), rtol=1e-12, atol=0)
