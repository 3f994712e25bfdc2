"""What a module keeps of its own, and the tools of torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from burnlike._torch_compat import modules


def test_has_global_hooks() -> None:
    assert not modules.has_global_hooks()
    hook = nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert modules.has_global_hooks()
    hook.remove()
    assert not modules.has_global_hooks()


def test_buffer_registration_hooks() -> None:
    assert not modules.buffer_registration_hooks
    handle = nn.modules.module.register_module_buffer_registration_hook(lambda *_: None)
    assert len(modules.buffer_registration_hooks) == 1
    handle.remove()
    assert not modules.buffer_registration_hooks


def test_BUFFER_MARK() -> None:
    assert hasattr(nn.Buffer(torch.ones(2)), modules.BUFFER_MARK)
    assert not hasattr(torch.ones(2), modules.BUFFER_MARK)


def test_STATE_METADATA() -> None:
    noted = getattr(nn.Sequential(nn.BatchNorm1d(2)).state_dict(), modules.STATE_METADATA)
    assert noted["0"] == {"version": nn.BatchNorm1d._version}


REGISTER: dict[str, Callable[[nn.Module, Any], Any]] = {
    "_forward_hooks": nn.Module.register_forward_hook,
    "_forward_pre_hooks": nn.Module.register_forward_pre_hook,
    "_backward_hooks": nn.Module.register_full_backward_hook,
    "_backward_pre_hooks": nn.Module.register_full_backward_pre_hook,
    "_state_dict_hooks": nn.Module.register_state_dict_post_hook,
    "_state_dict_pre_hooks": nn.Module.register_state_dict_pre_hook,
    "_load_state_dict_pre_hooks": nn.Module.register_load_state_dict_pre_hook,
    "_load_state_dict_post_hooks": nn.Module.register_load_state_dict_post_hook,
}


@pytest.mark.parametrize("name", modules.HOOKS)
def test_HOOKS(name: str) -> None:
    layer = nn.Linear(2, 2)
    calls: list[int] = []
    handle = REGISTER[name](layer, lambda *_: calls.append(1))
    hooks = layer.__dict__[name]
    assert list(hooks) == [handle.id]
    layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
    layer.load_state_dict(layer.state_dict())
    assert calls
    hooks.clear()
    calls.clear()
    layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
    layer.load_state_dict(layer.state_dict())
    assert not calls


def test_HOOKS_are_all() -> None:
    """A version of torch that has more of them fails here."""
    torchs = {name for name in nn.Module().__dict__ if name.endswith("_hooks") or "_hooks_" in name}
    assert torchs == {*modules.HOOKS, *modules.HOOK_FLAGS}


def test_HOOK_FLAGS() -> None:
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda *_: None, with_kwargs=True, always_call=True)
    layer.register_forward_pre_hook(lambda *_: None, with_kwargs=True)
    assert [len(layer.__dict__[name]) for name in modules.HOOK_FLAGS] == [1, 1, 1]


def test_LOAD_HOOKS() -> None:
    assert set(modules.LOAD_HOOKS) <= set(modules.HOOKS)


def test_STATE_HOOKS() -> None:
    assert set(modules.STATE_HOOKS) == {name for name in modules.HOOKS if "state_dict" in name}


def test_CALL_HOOKS() -> None:
    assert set(modules.CALL_HOOKS) == {name for name in modules.HOOKS if "forward" in name or "backward" in name}


def test_has_call_hooks() -> None:
    layer = nn.Linear(2, 2)
    layer.register_load_state_dict_pre_hook(print)
    assert not modules.has_call_hooks(layer)
    registrations = (
        layer.register_forward_pre_hook,
        layer.register_forward_hook,
        layer.register_full_backward_pre_hook,
        layer.register_full_backward_hook,
        nn.modules.module.register_module_forward_hook,
    )
    for register in registrations:
        handle = register(lambda *_: None)
        assert modules.has_call_hooks(layer)
        handle.remove()
        assert not modules.has_call_hooks(layer)


def test_FORWARD_PRE_HOOKS() -> None:
    layer = nn.Linear(2, 2)
    prune.identity(layer, "weight")
    assert len(layer.__dict__[modules.FORWARD_PRE_HOOKS]) == 1


def test_function_of() -> None:
    layer = nn.Linear(2, 2)
    layer.register_load_state_dict_pre_hook(print)
    layer.register_forward_hook(print)
    for name in ("_load_state_dict_pre_hooks", "_forward_hooks"):
        assert [modules.function_of(hook) for hook in layer.__dict__[name].values()] == [print]


def test_with_function() -> None:
    layer, copied = nn.Linear(2, 2), nn.Linear(2, 2)
    called: list[nn.Module] = []
    layer.register_load_state_dict_pre_hook(print)
    for key, hook in layer.__dict__["_load_state_dict_pre_hooks"].items():
        made = modules.with_function(hook, lambda module, *_: called.append(module), copied)
        copied.__dict__["_load_state_dict_pre_hooks"][key] = made
    copied.load_state_dict(layer.state_dict())
    assert called == [copied]
    assert modules.with_function(print, repr, copied) is repr


def test_TOOLS(group: None) -> None:
    layer: Any = nn.Linear(2, 2)
    from torch.distributed.fsdp import fully_shard

    fully_shard(layer, mesh=torch.distributed.init_device_mesh("cpu", (1,)))
    hooks = [hook for name in modules.STATE_HOOKS for hook in layer.__dict__[name].values()]
    assert hooks
    assert all(modules.function_of(hook).__module__.startswith(modules.TOOLS) for hook in hooks)
    compiled = type(torch.compile(nn.Linear(2, 2), backend="eager"))
    assert compiled.__module__.startswith(modules.TOOLS)


def test_COMPILED_CALL() -> None:
    layer = nn.Linear(2, 2)
    layer.compile(backend="eager")
    assert callable(layer.__dict__[modules.COMPILED_CALL])


def test_WRAPPERS(group: None) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    layer = nn.Linear(2, 2)
    wrappers = [
        torch.compile(layer, backend="eager"),
        nn.parallel.DistributedDataParallel(layer),
        nn.DataParallel(layer),
        checkpoint_wrapper(layer),
    ]
    names = [f"{type(it).__module__}.{type(it).__qualname__}" for it in wrappers]
    assert names == list(modules.WRAPPERS)
    assert all(it._modules[modules.WRAPPERS[name]] is layer for it, name in zip(wrappers, names, strict=True))


def test_WRAPPED() -> None:
    assert set(modules.WRAPPED) == set(modules.WRAPPERS.values())


def test_INFIX() -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    names = list(torch.compile(nn.Sequential(nn.Linear(2, 2)), backend="eager").state_dict())
    assert [modules.INFIX.sub("", name) for name in names] == ["0.weight", "0.bias"]
    names = [name for name, _ in nn.Sequential(checkpoint_wrapper(nn.Linear(2, 2))).named_modules()]
    assert modules.INFIX.sub("", f"{names[-1]}.") == "0."


def test_RNN_NOTES() -> None:
    assert {name for name in nn.GRU(2, 2).__dict__ if name.startswith("_flat")} - {
        "_flat_weights_names"
    } == modules.RNN_NOTES


def test_refresh_rnn() -> None:
    layer = nn.RNN(2, 2)
    for name, weight in list(layer._parameters.items()):
        assert weight is not None
        layer._parameters[name] = nn.Parameter(torch.zeros_like(weight))
    modules.refresh_rnn(layer)
    assert layer(torch.ones(1, 2))[0].tolist() == [[0.0, 0.0]]


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_moved_names() -> None:
    layer = nn.Linear(2, 2)
    nn.utils.weight_norm(layer, "weight")
    prune.identity(layer, "bias")
    assert modules.moved_names(layer) == {"weight_v": "weight", "bias_orig": "bias"}
    assert {"weight_v", "bias_orig"} <= layer._parameters.keys()
    spectral = nn.utils.spectral_norm(nn.Linear(2, 2))
    assert modules.moved_names(spectral) == {"weight_orig": "weight"}
    assert "weight_orig" in spectral._parameters
    pruned = nn.Linear(2, 2)
    prune.identity(pruned, "weight")
    prune.l1_unstructured(pruned, "weight", amount=1)
    assert modules.moved_names(pruned) == {"weight_orig": "weight"}


def test_is_compiled() -> None:
    layer = nn.Linear(2, 2)
    assert not modules.is_compiled(layer)
    assert modules.is_compiled(torch.compile(layer, backend="eager"))
    layer.compile(backend="eager")
    assert modules.is_compiled(layer)


@pytest.mark.parametrize("name", ["_parameters", "_buffers", "_modules"])
def test_dicts(name: str) -> None:
    """What the rest of burnlike uses."""
    part: Any = {"_parameters": nn.Parameter(torch.ones(2)), "_buffers": torch.ones(2), "_modules": nn.Identity()}[name]
    module = nn.Module()
    module.__dict__[name]["part"] = part
    assert module.part is part


def test_dicts_of_names() -> None:
    module = nn.Module()
    module.register_buffer("a", torch.ones(2), persistent=False)
    assert module._non_persistent_buffers_set == {"a"}
    module._non_persistent_buffers_set.clear()
    assert list(module.state_dict()) == ["a"]


def test_is_stock_convolution() -> None:
    """`nn.Conv2d.forward` calls `_conv_forward`, which a class of someone else may have replaced."""

    class Other(nn.Conv2d):
        def _conv_forward(self, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
            return input

    x = torch.ones(1, 2, 3, 3)
    assert torch.equal(Other(2, 2, 1)(x), x)
    assert not modules.is_stock_convolution(Other(2, 2, 1))
    assert all(modules.is_stock_convolution(it(2, 2, 1)) for it in (nn.Conv1d, nn.Conv2d, nn.Conv3d))
    assert not modules.is_stock_convolution(nn.Linear(2, 2))


def test_recurrent_kernels() -> None:
    assert modules.recurrent_kernels.lstm is torch.lstm
    assert nn.LSTM.forward.__globals__["_VF"] is modules.recurrent_kernels
