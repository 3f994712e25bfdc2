"""Gradients with respect to modules, against `backward` of torch in float64."""

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike import func, mlax
from burnlike.errors import ArgumentError, AutodiffError, DTypeError, TracedLeakError
from tests.func.models import (
    NETS,
    InPlace,
    assert_no_traced_tensor,
    assert_untouched,
    batch,
    batch_norm_net,
    frozen_net,
    loss,
    loss_alone,
    mixed_net,
    reference_gradients,
    snapshot,
)
from tests.mlax.samples import FROZEN, TRAINABLE, Bar, Counter, by_path


def bar() -> Bar:
    torch.manual_seed(0)
    return Bar().to(torch.float64)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_45_gradients_equal_those_of_backward_and_are_a_module_with_holes() -> None:
    module = bar()
    x = batch(module)
    t, n = module.partition()
    gradient = func.grad(loss_alone)(t, n, x)
    assert type(gradient) is Bar
    found = by_path(gradient)
    assert [path for path, leaf in found.items() if leaf.is_hole] == FROZEN
    expected = reference_gradients(module, x)
    assert sorted(expected) == sorted(TRAINABLE)
    for path in TRAINABLE:
        close(found[path].data, expected[path])
        assert found[path].id == by_path(module)[path].id
        assert found[path].data.grad_fn is None
        assert not found[path].data.requires_grad
        assert found[path].trainable is True
    whole = gradient.combine(n)
    assert torch.equal(whole.b.data, module.b.data)
    assert torch.equal(whole.a.data, gradient.a.data)


@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_45_gradients_of_any_module_equal_those_of_backward(make: Callable[[], nn.Module]) -> None:
    module = make()
    x = batch(module)
    expected = reference_gradients(module, x)
    t, n = mlax.partition(module)
    value, gradient = func.value_and_grad(loss_alone)(t, n, x)
    close(value, copy.deepcopy(module)(x).pow(2).mean().detach())
    found = dict(gradient.named_parameters())
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        close(found[name].detach(), tensor)
    ids = {param.path: param.id for param in bl.module.params(module)}
    assert func.by_id(gradient).keys() == {ids[name] for name in expected}


def test_a_gradient_is_found_by_the_id_of_its_parameter() -> None:
    net = batch_norm_net()
    t, n = mlax.partition(net)
    by_id = func.by_id(func.grad(loss_alone)(t, n, batch(net)))
    expected = reference_gradients(net, batch(net))
    for param in bl.module.params(net, "weight"):
        close(by_id[param.id].detach(), expected[param.path])


def test_a_tied_weight_has_one_gradient_the_sum() -> None:
    net = mixed_net()
    x = batch(net)
    t, n = mlax.partition(net)
    gradient = func.grad(loss_alone)(t, n, x)
    assert gradient.layers[0].weight is gradient.layers[1].weight
    close(gradient.layers[0].weight.detach(), reference_gradients(net, x)["layers.0.weight"])


def test_the_gradient_of_a_module_in_a_dict_beside_a_tensor() -> None:
    layer = nn.Linear(2, 1).double()
    scale = torch.tensor(3.0, dtype=torch.float64)
    x = torch.ones(4, 2, dtype=torch.float64)
    gradient = func.grad(lambda given, x: (given["layer"](x) * given["scale"]).sum())(
        {"layer": layer, "scale": scale}, x
    )
    close(gradient["layer"].weight.detach(), torch.full((1, 2), 12.0, dtype=torch.float64))
    close(gradient["scale"], layer(x).sum().detach())


def test_several_arguments_and_keywords() -> None:
    a, b = nn.Linear(2, 2).double(), nn.Linear(2, 1).double()
    x = torch.ones(4, 2, dtype=torch.float64)

    def f(x: Tensor, a: nn.Module, b: nn.Module, scale: float = 1.0, after: Any = None) -> Tensor:
        y = b(a(x))
        return (y if after is None else after(y)).sum() * scale

    first, second = func.grad(f, argnums=(2, 1))(x, a, b, scale=2.0, after=nn.Identity())
    (b(a(x)).sum() * 2.0).backward()
    close(first.weight.detach(), b.weight.grad)
    close(second.weight.detach(), a.weight.grad)
    last = func.grad(f, argnums=-1)(x, a, b)
    close(last.bias.detach(), b.bias.grad / 2)


def test_a_gradient_of_a_gradient() -> None:
    layer = nn.Linear(2, 1).double()
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)

    def steepness(layer: nn.Module) -> Tensor:
        gradient = func.grad(lambda layer: (layer(x) ** 3).sum())(layer)
        return gradient.weight.sum() + gradient.bias.sum()

    found = func.grad(steepness)(layer)
    first = torch.autograd.grad((layer(x) ** 3).sum(), list(layer.parameters()), create_graph=True)
    expected = torch.autograd.grad(sum(part.sum() for part in first), list(layer.parameters()))
    close(found.weight.detach(), expected[0])
    close(found.bias.detach(), expected[1])


def test_46_parts_have_gradients_where_whole_modules_are_refused() -> None:
    module = bar()
    t, n = module.partition()
    func.grad(loss_alone)(t, n, batch(module))
    with pytest.raises(AutodiffError, match=r"'b'.*'c\.0'.*burnlike\.mlax\.partition"):
        func.grad(lambda m, x: m(x).sum())(module, batch(module))
    with pytest.raises(AutodiffError, match=r"frozen parameter '0\.weight'.*partition"):
        func.grad(lambda m, x: m(x).sum())(frozen_net(), torch.ones(5, 3))
    with pytest.raises(AutodiffError, match=r"state '1\.num_batches_tracked' of torch\.int64.*partition"):
        func.grad(lambda m, x: m(x).sum())(batch_norm_net(), torch.ones(5, 3))


def test_a_validation_view_is_differentiated_as_what_is_meant_to_be_trained() -> None:
    layer = nn.Linear(2, 1)
    gradient = func.grad(lambda layer: layer(torch.ones(3, 2)).sum())(bl.module.valid(layer))
    assert gradient.weight.tolist() == [[3.0, 3.0]]


@pytest.mark.parametrize(
    ("argnums", "arguments", "error", "message"),
    [
        (1, (torch.ones(2),), ArgumentError, "positions of the 1 positional"),
        ((), (torch.ones(2),), ArgumentError, "one position or several"),
        ((0, -2), (torch.ones(2), torch.ones(2)), ArgumentError, "one position or several"),
        (0, (torch.ones(2, dtype=torch.long),), DTypeError, "torch.int64"),
        (0, ({"x": torch.ones(2), "y": 1.0},), AutodiffError, "holds float"),
    ],
)
def test_what_has_no_gradient_is_refused(argnums: Any, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        func.grad(lambda *args: torch.ones(()), argnums)(*arguments)


def test_a_loss_of_burnlikes_tensors_names_what_to_return() -> None:
    x = bl.Tensor.ones((2, 2), bl.Autodiff(bl.Cpu()))
    with pytest.raises(AutodiffError, match=r"return loss\.inner\.sum\(\)"):
        func.grad(lambda layer: layer(x).sum())(nn.Linear(2, 1))
    gradient = func.grad(lambda layer: layer(x).sum().inner.sum())(nn.Linear(2, 1))
    assert gradient.weight.tolist() == [[2.0, 2.0]]


def test_aux_must_come_as_a_pair() -> None:
    with pytest.raises(TypeError, match=r"\(scalar, aux\)"):
        func.grad(lambda x: x.sum(), has_aux=True)(torch.ones(2))


@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_47_a_module_is_as_it_was_after_each_transform(make: Callable[[], nn.Module]) -> None:
    module = make()
    x = batch(module)
    mlax.partition(module)
    before = snapshot(module)
    t, n = mlax.partition(module)
    func.grad(lambda t, n, x: mlax.combine(t, n)(x).pow(2).mean())(t, n, x)
    assert_untouched(module, before)
    func.value_and_grad(loss, has_aux=True)(t, n, x)
    assert_untouched(module, before)
    func.vmap(lambda module, x: module(x))(func.stack([module, module]), torch.stack([x, x]))
    assert_untouched(module, before)
    mlax.apply(module, x)
    assert_untouched(module, before)
    assert not isinstance(module, InPlace) or module.calls == 0


def test_47_a_whole_stack_is_as_it_was_after_vmap() -> None:
    members = func.stack([InPlace(), InPlace()])
    before = snapshot(members)
    func.vmap(lambda module, x: module(x), in_dims=(0, None))(members, batch(InPlace()))
    assert_untouched(members, before)


def test_aux_holds_the_module_with_its_new_state_and_the_same_weights() -> None:
    net = batch_norm_net()
    x = batch(net)
    t, n = mlax.partition(net)
    (_, after), _ = func.value_and_grad(loss, has_aux=True)(t, n, x)
    expected = copy.deepcopy(net)
    expected(x)
    close(after[1].running_mean, expected[1].running_mean)
    close(after[1].running_var, expected[1].running_var)
    assert after[1].num_batches_tracked.item() == 1
    assert all(a is b for a, b in zip(after.parameters(), net.parameters(), strict=True))


def test_aux_may_hold_a_recurrent_layer_which_keeps_a_list_of_its_weights() -> None:
    layer = nn.LSTM(3, 2).double()

    def loss(layer: nn.LSTM) -> tuple[Tensor, nn.LSTM]:
        return layer(torch.ones(4, 3, dtype=torch.float64))[0].sum(), layer

    _, after = func.grad(loss, has_aux=True)(layer)
    assert all(a is b for a, b in zip(after.parameters(), layer.parameters(), strict=True))


def test_aux_may_hold_anything() -> None:
    def f(x: Tensor) -> tuple[Tensor, Any]:
        return x.sum(), {"text": "seen", "none": None, "double": x * 2, "layer": nn.Linear(1, 1)}

    gradient, aux = func.grad(f, has_aux=True)(torch.ones(2))
    assert gradient.tolist() == [1.0, 1.0]
    assert (aux["text"], aux["none"], aux["double"].tolist()) == ("seen", None, [2.0, 2.0])
    assert isinstance(aux["layer"].weight, nn.Parameter)


def test_40_a_traced_tensor_in_a_plain_attribute_does_not_leave_the_transform() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 1)
            self.inner.last = None  # type: ignore[assignment]
            self.history: Any = []

        def forward(self, x: Tensor) -> Tensor:
            y = self.inner(x)
            if isinstance(self.history, list):
                self.history.append(y)
            return y

    module = Keeps()
    x = torch.ones(3, 2)
    func.grad(lambda module: module(x).sum())(module)
    func.vmap(lambda module, x: module(x), in_dims=(None, 0))(module, x)
    assert module.inner.last is None
    assert module.history == []
    assert_no_traced_tensor(module)

    def returned(module: nn.Module) -> tuple[Tensor, nn.Module]:
        return module(x).sum(), module

    with pytest.raises(TracedLeakError, match=r"'history'.*register_buffer"):
        func.grad(returned, has_aux=True)(module)
    with pytest.raises(TracedLeakError, match="'history'"):
        func.vmap(lambda module, x: (module(x), module), in_dims=(None, 0), out_dims=(0, None))(module, x)
    module.history = ()
    module.inner.register_forward_hook(lambda inner, args, output: setattr(inner, "last", output))
    with pytest.raises(TracedLeakError, match=r"'inner\.last'"):
        func.grad(returned, has_aux=True)(module)
    assert_no_traced_tensor(module)


@pytest.mark.parametrize("make", [Counter, bar, batch_norm_net, mixed_net])
def test_48_modules_copy_and_pickle_after_a_transform_with_their_ids(make: Callable[[], nn.Module]) -> None:
    module = make() if make is not Counter else Counter().to(torch.float64)
    x = batch(module)
    t, n = mlax.partition(module)
    (_, after), gradient = func.value_and_grad(loss, has_aux=True)(t, n, x)
    for result in (module, t, n, after, gradient):
        assert_no_traced_tensor(result)
        ids = [leaf.id for leaf in mlax.leaves(result)]
        assert [leaf.id for leaf in mlax.leaves(copy.deepcopy(result))] == ids
        assert [leaf.id for leaf in mlax.leaves(pickle.loads(pickle.dumps(result)))] == ids
        assert all(isinstance(param, nn.Parameter) and param.is_leaf for param in result.parameters())


def test_52_a_hundred_steps_keep_no_graph_and_reach_what_torch_reaches() -> None:
    net = batch_norm_net()
    x = batch(net)
    expected = copy.deepcopy(net)
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1)
    module = net
    alive: list[int] = []
    for step in range(100):
        if step in (10, 99):
            gc.collect()
            alive.append(sum(issubclass(type(it), Tensor) for it in gc.get_objects()))
        t, n = mlax.partition(module)
        (value, module), gradient = func.value_and_grad(loss, has_aux=True)(t, n, x)
        steps = func.by_id(gradient)
        module = mlax.map(module, lambda p, steps=steps: p.data - 0.1 * steps[p.id] if p.id in steps else p)
        assert value.grad_fn is None
        for tensor in (*module.parameters(), *module.buffers()):
            assert tensor.grad_fn is None
        optimizer.zero_grad()
        expected(x).pow(2).mean().backward()
        optimizer.step()
    assert alive[1] <= alive[0]
    for a, b in zip(module.state_dict().values(), expected.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    assert all(param.requires_grad for param in module.parameters())


def test_52_the_state_keeps_no_graph_although_the_input_requires_grad() -> None:
    net = batch_norm_net()
    t, n = mlax.partition(net)
    x = batch(net).requires_grad_(True)
    (_, after), _ = func.value_and_grad(loss, has_aux=True)(t, n, x)
    assert all(tensor.grad_fn is None for tensor in (*after.parameters(), *after.buffers()))


def test_lazy_parameters_are_initialized_once() -> None:
    made: list[int] = []

    def init(device: torch.device) -> Tensor:
        made.append(1)
        return torch.ones(2, device=device)

    class Lazy(bl.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = bl.Param.uninitialized(init, [2])

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight

    module = Lazy()
    gradient = func.grad(lambda module: module(torch.tensor([3.0, 4.0])).sum())(module)
    assert gradient.weight.tolist() == [3.0, 4.0]
    assert module.weight.tolist() == [1.0, 1.0]
    assert made == [1]


def test_random_numbers_of_a_key_are_those_of_apply() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x: Tensor, rng: Any) -> Tensor:
            return x * self.weight * torch.rand(2, generator=rng.generator(x.device))

    module, key, x = Noisy(), mlax.Key(3), torch.ones(4, 2)
    gradient = func.grad(lambda module: func.fwd(module, x=x, rng=key)[0].sum())(module)
    torch.testing.assert_close(gradient.weight.detach(), mlax.apply(module, x, key)[0].sum(0).detach())


def test_fwd_needs_a_part() -> None:
    with pytest.raises(ArgumentError, match="at least one part"):
        func.fwd(x=torch.ones(2))


def test_fwd_is_combine_and_apply() -> None:
    counter = Counter()
    t, n = counter.partition()
    x = torch.ones(2, 3)
    y, after = func.fwd(n, t, x=x)
    assert torch.equal(y, x @ counter.w.data)
    assert (after.seen.data.item(), counter.seen.data.item()) == (2, 0)
    assert func.fwd(t, n, x=x, inference_mode=True)[1].seen.data.item() == 0
