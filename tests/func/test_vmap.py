"""Ensembles, per-sample gradients and state under `burnlike.func.vmap`, against loops."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike import func, mlax
from burnlike.errors import ArgumentError, StructureMismatchError
from burnlike.optim import GradientsParams, SgdConfig
from tests.func.models import (
    NETS,
    InPlace,
    Mixed,
    assert_no_traced_tensor,
    batch,
    batch_norm_net,
    loss_alone,
    mixed_net,
)
from tests.mlax.samples import Bar, Counter, by_path


def bar() -> Bar:
    return Bar().to(torch.float64)


def counter() -> Counter:
    return Counter().to(torch.float64)


def different(make: Callable[[], nn.Module], count: int = 3) -> list[Any]:
    """Modules of one structure with other values and other ids."""
    members = []
    for seed in range(count):
        module = make()
        torch.manual_seed(seed)
        with torch.no_grad():
            for param in module.parameters():
                param.copy_(torch.randn_like(param))
        members.append(module)
    return members


@pytest.mark.parametrize("make", [bar, counter, *NETS.values()], ids=["bar", "counter", *NETS])
def test_49_an_ensemble_equals_a_loop_and_its_members_come_back(make: Callable[[], nn.Module]) -> None:
    members = different(make)
    x = batch(members[0])
    ensemble = func.stack(members)
    ys, after = func.vmap(mlax.apply, in_dims=(0, None))(ensemble, x)
    expected = [mlax.apply(member, x) for member in members]
    torch.testing.assert_close(ys, torch.stack([y for y, _ in expected]))
    back = func.unstack(after)
    assert len(back) == 3
    for found, (_, wanted), member in zip(back, expected, members, strict=True):
        assert type(found).__name__ == type(member).__name__  # torch makes a class for each parametrized module
        for (name, a), (other, b) in zip(found.state_dict().items(), wanted.state_dict().items(), strict=True):
            assert name == other
            torch.testing.assert_close(a, b)
        for a, b in zip(mlax.leaves(found), mlax.leaves(member), strict=True):
            assert (a.id, a.path, a.aliases, a.name) == (b.id, b.path, b.aliases, b.name)
            assert (a.trainable, a.requires_grad, a.kind) == (b.trainable, b.requires_grad, b.kind)
        assert_no_traced_tensor(found)


def test_49_state_is_stacked_per_member() -> None:
    members = different(counter)
    members[1].seen.data = torch.tensor(10)
    _, after = func.vmap(lambda m, x: m.apply(x), in_dims=(0, None))(func.stack(members), batch(members[0]))
    assert after.seen.data.tolist() == [5, 15, 5]
    assert [member.seen.data.item() for member in func.unstack(after)] == [5, 15, 5]
    assert [member.seen.data.item() for member in members] == [0, 10, 0]


def test_49_a_stack_has_ids_of_its_own_and_shares_no_memory() -> None:
    members = different(batch_norm_net)
    ensemble = func.stack(members)
    ids = {param.id for param in bl.module.params(ensemble)}
    for member in members:
        assert ids.isdisjoint(param.id for param in bl.module.params(member))
    first = members[0][0].weight.detach().clone()
    with torch.no_grad():
        ensemble[0].weight.zero_()
        func.unstack(ensemble)[0][0].weight.fill_(7.0)
    assert torch.equal(members[0][0].weight, first)
    assert ensemble[0].weight.sum() == 0


def test_49_members_of_other_structure_are_refused_with_path_and_both_values() -> None:
    other = bar()
    other.h = "other"
    with pytest.raises(StructureMismatchError, match=r"'h': 'abc' and 'other'"):
        func.stack([bar(), other])
    with pytest.raises(StructureMismatchError, match=r"'0\.out_features': 2 and 3"):
        func.stack([nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 3))])
    with pytest.raises(StructureMismatchError, match=r"'0\.bias': a parameter and None"):
        func.stack([nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2, bias=False))])
    with pytest.raises(StructureMismatchError, match="Linear and Bilinear"):
        func.stack([nn.Linear(2, 2), nn.Bilinear(2, 2, 2)])


def test_49_members_of_other_shape_or_flags_are_refused() -> None:
    short = nn.ParameterDict({"w": torch.ones(2)})
    with pytest.raises(StructureMismatchError, match=r"modules 0 and 2 differ at 'w': shape \[2\] and shape \[3\]"):
        func.stack([short, copy.deepcopy(short), nn.ParameterDict({"w": torch.ones(3)})])
    with pytest.raises(StructureMismatchError, match=r"'w': torch\.float32 and torch\.float64"):
        func.stack([short, copy.deepcopy(short).double()])
    with pytest.raises(StructureMismatchError, match="'w': trainable=True and trainable=False"):
        func.stack([short, bl.module.freeze(copy.deepcopy(short))])
    with pytest.raises(StructureMismatchError, match="training=True and training=False"):
        func.stack([batch_norm_net(), batch_norm_net().eval()])
    tied, untied = Mixed(), Mixed()
    untied.layers[1].weight = nn.Parameter(torch.ones(3, 3))
    with pytest.raises(StructureMismatchError, match="distinct tensors"):
        func.stack([tied, untied])
    t, n = mlax.partition(short)
    with pytest.raises(StructureMismatchError, match="holes"):
        func.stack([t, n])
    with pytest.raises(ArgumentError, match="at least one"):
        func.stack([])


def test_stacks_of_stacks() -> None:
    rows = [different(mixed_net), different(mixed_net)]
    x = batch(rows[0][0])
    grid = func.stack([func.stack(row) for row in rows])
    run = func.vmap(func.vmap(lambda m, x: m(x), in_dims=(0, None)), in_dims=(0, None))
    expected = torch.stack([torch.stack([member(x) for member in row]) for row in rows])
    torch.testing.assert_close(run(grid, x), expected)
    for stacked, row in zip(func.unstack(grid), rows, strict=True):
        for found, member in zip(func.unstack(stacked), row, strict=True):
            assert [it.id for it in mlax.leaves(found)] == [it.id for it in mlax.leaves(member)]
            with pytest.raises(ArgumentError, match="not made by"):
                func.unstack(found)


def test_only_what_was_stacked_can_be_unstacked() -> None:
    with pytest.raises(ArgumentError, match=r"not made by burnlike\.func\.stack"):
        func.unstack(nn.Linear(2, 1))
    ensemble = func.stack(different(batch_norm_net))
    mean = func.vmap(lambda m: m, out_dims=0)(ensemble)
    mean[0].bias = nn.Parameter(torch.zeros(()))
    with pytest.raises(ArgumentError, match=r"'0\.bias' has shape \[\].*dimension of 3"):
        func.unstack(mean)


def test_a_stack_is_copied_pickled_partitioned_and_remembers_its_members() -> None:
    members = different(mixed_net)
    ensemble = func.stack(members)
    t, n = mlax.partition(pickle.loads(pickle.dumps(copy.deepcopy(ensemble))))
    for found, member in zip(func.unstack(mlax.combine(t, n)), members, strict=True):
        assert [p.id for p in bl.module.params(found)] == [p.id for p in bl.module.params(member)]
        assert found.layers[0].weight is found.layers[1].weight
    part = func.unstack(t)[0]
    assert part.offset is None
    assert [p.id for p in bl.module.params(part)] == [p.id for p in bl.module.params(mlax.partition(members[0])[0])]


def test_labels_and_trainability_of_members() -> None:
    def labelled(name: str) -> mlax.Module:
        class One(mlax.Module):
            def __init__(self) -> None:
                self.w = mlax.Parameter(True, torch.ones(2), name)

        return One()

    one = labelled("first")
    two = copy.deepcopy(one)
    two.w.with_name("second")
    ensemble = func.stack([one, two])
    assert [member.w.name for member in func.unstack(ensemble)] == ["first", "second"]
    frozen = bl.module.freeze(ensemble)
    assert [member.w.trainable for member in func.unstack(frozen)] == [False, False]


def test_an_ensemble_trains_with_torch() -> None:
    members = different(mixed_net)
    x = batch(members[0])
    ensemble = func.stack(members)
    optimizer = torch.optim.SGD(ensemble.parameters(), lr=0.1)
    func.vmap(lambda m, x: m(x).pow(2).mean(), in_dims=(0, None))(ensemble, x).sum().backward()
    optimizer.step()
    for found, member in zip(func.unstack(ensemble), members, strict=True):
        member(x).pow(2).mean().backward()
        torch.optim.SGD(member.parameters(), lr=0.1).step()
        for a, b in zip(found.parameters(), member.parameters(), strict=True):
            torch.testing.assert_close(a, b)


def test_an_ensemble_trains_within_vmap() -> None:
    members = different(batch_norm_net)
    x = batch(members[0])

    def step(module: nn.Module) -> nn.Module:
        t, n = mlax.partition(module)
        gradient = func.by_id(func.grad(loss_alone)(t, n, x))
        return mlax.map(module, lambda p: p.data - 0.1 * gradient[p.id] if p.id in gradient else p)

    trained = func.vmap(step)(func.stack(members))
    for found, member in zip(func.unstack(trained), members, strict=True):
        for a, b in zip(found.parameters(), step(member).parameters(), strict=True):
            torch.testing.assert_close(a, b)
            assert a.requires_grad
            assert a.is_leaf


def test_50_state_that_differs_per_example_needs_a_dimension() -> None:
    class Sees(mlax.Module):
        def __init__(self) -> None:
            self.inner = Counter()
            self.last = mlax.Parameter(False, torch.zeros(3), kind="state")

        def forward(self, x: Tensor) -> Tensor:
            self.last.data = x * 2
            return self.inner(x[None])[0][0]

    module, x = Sees(), torch.arange(12.0).reshape(4, 3)
    with pytest.raises(ArgumentError, match=r"state 'last' differs.*out_dims=0"):
        func.vmap(mlax.apply, in_dims=(None, 0), out_dims=(0, None))(module, x)
    _, after = func.vmap(mlax.apply, in_dims=(None, 0))(module, x)
    assert torch.equal(after.last.data, x * 2)
    assert after.inner.seen.data.tolist() == [1, 1, 1, 1]
    assert torch.equal(module.last.data, torch.zeros(3))


def test_50_state_that_is_the_same_in_every_call_comes_out_once_and_weights_are_the_same_objects() -> None:
    module, x = counter(), batch(counter())
    ys, after = func.vmap(lambda m, x: m.apply(x[None]), in_dims=(None, 0), out_dims=(0, None))(module, x)
    assert torch.equal(ys[:, 0], x @ module.w.data)
    assert after.seen.data.item() == 1
    assert after.w.data is module.w.data


def test_weights_that_are_the_same_in_every_call_can_be_written_where_they_get_a_dimension() -> None:
    module = nn.Linear(2, 1)
    after = func.vmap(lambda m, x: m, in_dims=(None, 0))(module, torch.ones(4, 2))
    with torch.no_grad():
        after.weight[0].zero_()
    assert torch.equal(after.weight[1], module.weight)
    assert after.weight.requires_grad


def test_a_weight_without_dimensions_gets_one_too() -> None:
    module = nn.ParameterDict({"scale": torch.tensor(2.0)})
    after = func.vmap(lambda m, x: m, in_dims=(None, 0))(module, torch.ones(4))
    assert after["scale"].tolist() == [2.0] * 4


@pytest.mark.parametrize("make", [bar, mixed_net, lambda: batch_norm_net().eval()], ids=["bar", "mixed", "batch_norm"])
def test_51_per_sample_gradients(make: Callable[[], nn.Module]) -> None:
    module = make()
    x = batch(module, 4)
    t, n = mlax.partition(module)
    per_sample = func.vmap(func.grad(lambda t, n, x: loss_alone(t, n, x[None])), in_dims=(None, None, 0))(t, n, x)
    whole = dict(func.grad(loss_alone)(t, n, x).named_parameters())
    found = dict(per_sample.named_parameters())
    assert found.keys() == whole.keys()
    for name, tensor in found.items():
        assert tensor.shape == (4, *whole[name].shape)
        torch.testing.assert_close(tensor.mean(0), whole[name].detach())
        one = dict(func.grad(loss_alone)(t, n, x[2:3]).named_parameters())[name]
        torch.testing.assert_close(tensor[2], one.detach())
    assert [leaf.id for leaf in mlax.leaves(per_sample)] == [leaf.id for leaf in mlax.leaves(t)]
    assert all(leaf.trainable and not leaf.requires_grad for leaf in mlax.leaves(per_sample))


def test_per_sample_gradients_in_chunks_are_the_same() -> None:
    module = bar()
    t, n = module.partition()
    one = func.grad(lambda t, n, x: loss_alone(t, n, x[None]))
    whole = func.vmap(one, in_dims=(None, None, 0))(t, n, batch(module))
    chunked = func.vmap(one, in_dims=(None, None, 0), chunk_size=2)(t, n, batch(module))
    for path in ("a", "f.w"):
        torch.testing.assert_close(by_path(chunked)[path].data, by_path(whole)[path].data)


def test_members_may_have_inputs_of_their_own_and_modules_may_be_keywords() -> None:
    members = different(mixed_net)
    xs = torch.stack([batch(members[0]) + index for index in range(3)], dim=1)
    shared = nn.Linear(3, 3).double()

    def f(given: dict[str, Any], after: nn.Module) -> dict[str, Tensor]:
        return {"y": after(given["module"](given["x"]))}

    found = func.vmap(f, in_dims=({"module": 0, "x": 1},), out_dims={"y": 2})(
        {"module": func.stack(members), "x": xs}, after=shared
    )["y"]
    for index, member in enumerate(members):
        torch.testing.assert_close(found[:, :, index], shared(member(xs[:, index])))


def test_random_numbers_are_an_error_unless_asked_for() -> None:
    module = nn.Dropout(0.5)
    run = lambda randomness: func.vmap(lambda x: module(x), randomness=randomness)(torch.ones(8, 64))  # noqa: E731
    with pytest.raises(RuntimeError, match="randomness"):
        run("error")
    assert all(torch.equal(row, run_same[0]) for run_same in [run("same")] for row in run_same)
    assert not torch.equal(*run("different")[:2])


def test_dimensions_that_do_not_fit_the_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="in_dims"):
        func.vmap(lambda m, x: m(x), in_dims=(0, 0, 0))(nn.Linear(2, 1), torch.ones(3, 2))
    with pytest.raises(ValueError, match="out_dims"):
        func.vmap(lambda x: (x, x), out_dims=(0, 0, 0))(torch.ones(3, 2))


def test_state_that_a_layer_changes_in_place_is_stacked_too() -> None:
    members = [InPlace(), InPlace()]
    _, after = func.vmap(mlax.apply)(func.stack(members), torch.stack([batch(members[0]), batch(members[0]) + 1]))
    first, second = func.unstack(after)
    torch.testing.assert_close(second.mean, first.mean + 1)
    assert (first.steps.item(), first.cache.tolist()) == (1.0, [3.0, 3.0])
    assert members[0].steps.item() == 0


def test_an_optimizer_takes_the_gradients_of_an_ensemble_and_means_of_those_of_examples() -> None:
    torch.manual_seed(0)
    members, x = [nn.Linear(3, 1).double() for _ in range(2)], torch.randn(4, 3, dtype=torch.float64)
    ensemble, alone = func.stack(members), func.stack(members[:1])

    def loss(member: nn.Module, x: Tensor) -> Tensor:
        return member(x).square().mean()

    gradients = func.vmap(func.grad(loss), in_dims=(0, None))(ensemble, x)
    SgdConfig().init().step(0.1, ensemble, GradientsParams.from_module(gradients))
    of_examples = func.vmap(func.grad(loss), in_dims=(None, 0))(members[0], x)
    mean = mlax.map(of_examples, lambda parameter: parameter.data.mean(0))
    SgdConfig().init().step(0.1, members[0], GradientsParams.from_module(mean))
    expected = func.unstack(alone)[0]
    loss(expected, x).backward()
    torch.optim.SGD(expected.parameters(), lr=0.1).step()
    for made in (members[0], func.unstack(ensemble)[0]):
        for ours, theirs in zip(made.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs)
