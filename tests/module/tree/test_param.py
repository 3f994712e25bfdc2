"""Param: a parameter with an id, an intent and mappers, held by a module or by none yet."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.errors import AutodiffError, DeviceError, DTypeError
from burnlike.module import Module, Param, ParamId, params

from ..cases import case


class Scale(Module):
    def __init__(self, gamma: Param) -> None:
        super().__init__()
        self.gamma = gamma


def lone(**options: object) -> Param:
    return Param.from_tensor(torch.ones(3, 3), **options)


def states(param: Param) -> tuple[bool, bool]:
    return param.requires_grad, param.trainable


@case("param/require_grad_stateful")
@pytest.mark.parametrize("held", [False, True], ids=["lone", "in a module"])
def test_modes_change_what_is_tracked_and_no_grad_what_is_meant(held: bool) -> None:
    param = lone()
    if held:
        (param,) = params(Scale(param))
    assert states(param) == (True, True)
    for operation, expected in [
        (Param.valid, (False, True)),
        (Param.train, (True, True)),
        (Param.no_grad, (False, False)),
        (Param.valid, (False, False)),
        (Param.train, (False, False)),
    ]:
        param = operation(param)
        assert states(param) == expected


def test_valid_is_a_parameter_of_its_own_that_sees_updates() -> None:
    param = lone(name="gamma")
    view = param.valid()
    with torch.no_grad():
        param.tensor.mul_(2)
    assert torch.equal(view.val(), torch.full((3, 3), 2.0))
    assert (view.id, view.name) == (param.id, "gamma")
    assert states(param) == (True, True)


def test_the_intent_set_while_valid_is_followed_by_train() -> None:
    param = lone(trainable=False).valid()
    assert states(param.set_require_grad(True)) == (False, True)
    assert not Scale(param).gamma.requires_grad
    assert states(param.train()) == (True, True)
    assert states(param.valid().no_grad().train()) == (False, False)


def test_a_valid_module_stays_untracked_when_it_is_unfrozen() -> None:
    module = Scale(lone(trainable=False)).valid()
    module.unfreeze()
    assert not module.gamma.requires_grad
    assert module.train().gamma.requires_grad


def test_from_tensor_is_trainable_where_floats_are_and_state_otherwise() -> None:
    floats, whole, bools = (
        Param.from_tensor(torch.ones(2).to(kind)) for kind in (torch.float64, torch.int64, torch.bool)
    )
    assert (floats.kind, floats.trainable, type(floats.tensor)) == ("weight", True, nn.Parameter)
    assert [(p.kind, p.trainable, p.requires_grad) for p in (whole, bools)] == [("state", False, False)] * 2
    assert states(whole.set_require_grad(True).train().valid()) == (False, False)


def test_from_tensor_takes_a_parameter_as_it_is() -> None:
    weight = nn.Parameter(torch.ones(2), requires_grad=False)
    param = Param.from_tensor(weight)
    assert param.tensor is weight
    assert Scale(param).gamma is weight
    assert not param.trainable
    assert Param.from_tensor(weight, trainable=True).tensor.requires_grad


def test_the_module_takes_over_id_name_and_intent() -> None:
    param = lone(name="gamma", id=ParamId(7), trainable=False)
    (held,) = params(Scale(param))
    assert (held.id, held.name, held.path, states(held)) == (ParamId(7), "gamma", "gamma", (False, False))
    assert param.is_initialized()
    assert held.with_name("other").name == "other"


def test_from_data_copies_numbers() -> None:
    numbers = [[1.0, 2.0]]
    param = Param.from_data(numbers, trainable=False)
    assert torch.equal(param.val(), torch.tensor(numbers))
    assert not param.trainable
    assert Param.from_data([1, 2], device="meta").lazy_device() == torch.device("meta")


def test_running_state_is_saved_and_never_trained() -> None:
    module = Scale(Param.running(torch.zeros(3)))
    assert list(module.state_dict()) == ["gamma"]
    assert not list(module.parameters())
    assert params(module)[0].kind == "state"


def test_wrong_tensors_are_refused_with_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"expected a torch\.Tensor, got list; for numbers use Param\.from_data"):
        Param.from_tensor([1.0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(AutodiffError, match=r"give tensor\.detach\(\)"):
        Param.from_tensor(torch.ones(2, requires_grad=True) * 2)
    with pytest.raises(DTypeError, match="can't be trainable"):
        Param.from_tensor(torch.ones(2, dtype=torch.int64), trainable=True)
    with pytest.raises(TypeError, match="expected a function of the device"):
        Param.uninitialized(torch.ones(2), [2])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DTypeError, match=r"holds floating-point numbers, got torch\.int64"):
        Param.uninitialized(lambda device: torch.ones(2), [2], dtype=torch.int64)
    with pytest.raises(DeviceError, match="'gpu'"):
        Param.uninitialized(lambda device: torch.ones(2), [2], device="gpu")


def test_map_gives_another_parameter_with_the_same_identity() -> None:
    param = lone(name="gamma", trainable=False).save_mapper(torch.t)
    mapped = param.map(lambda values: values * 3)
    assert torch.equal(mapped.val(), torch.full((3, 3), 3.0))
    assert torch.equal(param.val(), torch.ones(3, 3))
    assert (mapped.id, mapped.name, mapped.mappers, states(mapped)) == (
        param.id,
        "gamma",
        param.mappers,
        (False, False),
    )
    assert param.map(lambda values: values.view(9)).tensor.data_ptr() != param.tensor.data_ptr()
    assert states(param.set_require_grad(True).valid().map(torch.neg)) == (False, True)


def test_a_mapper_that_gives_no_tensor_or_whole_numbers_is_refused() -> None:
    param = lone()
    for change in (param.map, param.init_mapper):
        with pytest.raises(TypeError, match="gave NoneType, expected"):
            change(lambda values: None)  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match=r"gave torch\.int64, expected floating-point"):
            change(torch.Tensor.long)
    assert torch.equal(param.val(), torch.ones(3, 3))


def test_init_mapper_changes_values_now_or_when_they_are_made() -> None:
    calls = []

    def init(device: torch.device) -> torch.Tensor:
        calls.append(device)
        return torch.arange(6.0, device=device).view(2, 3)

    lazy = Param.uninitialized(init, [2, 3], requires_grad=False).init_mapper(torch.t)
    assert (lazy.lazy_shape(), lazy.is_initialized(), calls) == (torch.Size([3, 2]), False, [])
    now = Param.from_tensor(torch.arange(6.0).view(2, 3), trainable=False).init_mapper(torch.t)
    expected = torch.tensor([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]])
    for param in (lazy, now):
        assert torch.equal(param.val(), expected)
        assert states(param) == (False, False)
    assert calls == [torch.device("cpu")]


def test_mappers_are_kept_by_valid_train_and_the_module() -> None:
    param = lone().load_mapper(torch.t).save_mapper(torch.neg)
    assert param.valid().train().mappers == (torch.t, torch.neg)
    module = Scale(param)
    assert params(module.valid())[0].mappers == (torch.t, torch.neg)
    assert param.load_mapper(None).mappers == (None, torch.neg)


def test_assign_replaces_every_place_of_a_tied_tensor() -> None:
    module = Scale(lone())
    module.tied = module.gamma
    module.register_buffer("mean", torch.zeros(2))
    module.register_buffer("tied_mean", module.mean)
    weight, state = params(module)
    weight.assign(torch.zeros(3, 3))
    state.assign(torch.ones(2))
    assert module.gamma is module.tied
    assert module.mean is module.tied_mean
    assert torch.equal(module.mean, torch.ones(2))
    assert states(weight) == (True, True)


@case("param/sync")
def test_threads_share_a_parameter() -> None:
    param = lone()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: param.val(), range(4)))
    assert all(tensor is param.tensor for tensor in found)


@case("param/concurrent_lazy_init")
def test_threads_that_need_a_lazy_parameter_at_once_get_one_initialization() -> None:
    calls = []

    def init(device: torch.device) -> torch.Tensor:
        calls.append(device)
        return torch.zeros(2, 3, device=device)

    for _ in range(20):
        calls.clear()
        param = Param.uninitialized(init, [2, 3], requires_grad=False)
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _, param=param: param.val() + param.tensor.shape[0], range(4)))
        assert all(torch.equal(result, torch.full((2, 3), 2.0)) for result in results)
        assert len(calls) == 1


def test_repr_says_what_it_is_without_initializing() -> None:
    param = Param.uninitialized(lambda device: torch.ones(2), [2], id=ParamId(1))
    assert repr(param) == "Param('', weight, [2], torch.float32, trainable=True, id=0400000000000)"
    assert not param.is_initialized()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.bool])
def test_data_and_tensors_of_every_kind_become_parameters(dtype: torch.dtype) -> None:
    values = torch.tensor([[1, 0], [3, 4]]).to(dtype)
    typed = bl.Tensor(values, bl.Cpu())
    kind = "weight" if dtype.is_floating_point else "state"
    for param in (
        Param.from_data(typed.to_data()),
        Param.from_data(typed),
        Param.from_data(values),
        Param.from_tensor(typed),
        Param.from_tensor(typed, trainable=False),
        Param.running(typed),
    ):
        assert torch.equal(param.tensor, values)
        assert param.tensor.dtype == dtype
        assert param.kind == kind or (param.kind == "state" and not param.trainable)
    assert Param.from_tensor(typed).tensor.data_ptr() == values.data_ptr()
    assert Param.from_data(typed).tensor.data_ptr() != values.data_ptr()
    assert Param.from_data(bl.tensor.TensorData.zeros([0, 2])).tensor.shape == (0, 2)
    layer = Scale(Param.from_data(typed.to_data()))
    assert torch.equal(layer.gamma, values)


def test_typed_tensors_that_were_computed_and_what_is_no_number_are_refused() -> None:
    x = bl.Tensor(torch.ones(2, requires_grad=True), bl.Autodiff(bl.Cpu()))
    with pytest.raises(AutodiffError, match="was computed from others"):
        Param.from_tensor(x * 2)
    with pytest.raises(TypeError, match=r"expected numbers, in lists, an array, TensorData or a tensor"):
        Param.from_data(["a"])
    with pytest.raises(DeviceError):
        Param.from_data([1.0], device="nowhere")
