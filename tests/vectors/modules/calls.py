"""The calls of the vectors: what each does with its layer."""

import re
from collections.abc import Callable
from typing import Any

import torch

from burnlike.module import display, params, train, valid

from ..problems import UnknownError
from .results import Result
from .subject import Subject

REDUCTIONS = {"Mean": "mean", "Sum": "sum", "BatchMean": "batch_mean", "Auto": "auto"}
AFTER_TRAINING = "one forward in train mode on the same input first, then valid()"


def prepared(subject: Subject) -> Any:
    """The layer, after what `setup` says."""
    layer = subject.layer()
    setup = subject.record.get("setup")
    if setup is not None:
        if setup != AFTER_TRAINING:
            raise UnknownError(f"unknown setup {setup!r}")
        subject.called(layer.train())
        layer.eval()
    return layer


def more_arguments(subject: Subject) -> list[Any]:
    """What comes after the inputs: dimensions, and the reduction, unless it is the layer's own."""
    found = list(subject.record.get("args") or [])
    reduction = subject.record.get("reduction")
    if reduction is not None:
        if reduction not in REDUCTIONS:
            raise UnknownError(f"unknown reduction {reduction!r}")
        if "reduction" not in subject.record["config"]:
            found.append(REDUCTIONS[reduction])
    return found


def method(name: str) -> Callable[[Subject], Result]:
    """A method of the layer, called with the inputs."""

    def call(subject: Subject) -> Result:
        layer = prepared(subject)
        function = layer if name == "forward" else getattr(layer, name)
        result = Result.of(subject.world, subject.called(function, *more_arguments(subject)))
        wrapped_alike(subject, result)
        return result

    return call


def wrapped_alike(subject: Subject, result: Result) -> None:
    """Check what `also_via` says: that the activation gives the same as a part of another layer."""
    if "also_via" not in subject.record:
        return
    if subject.record["also_via"] != "Activation enum wrapper (ActivationConfig)":
        raise UnknownError(f"unknown way {subject.record['also_via']!r}")
    from .wrappers import activation_field

    again = subject.called(activation_field(subject))
    if not torch.equal(subject.world.plain(again), result.single()):
        raise UnknownError("as a part of another layer it gives something else")


def gradients(name: str) -> Callable[[Subject], Result]:
    """A method, and a backward pass from the sum of its output."""

    def call(subject: Subject) -> Result:
        layer = prepared(subject)
        inputs, masks = subject.arguments(with_gradients=True)
        if LOG_SOFTMAX in subject.record["call"]:
            inputs[0] = torch.log_softmax(inputs[0], -1)
        function = layer if name == "forward" else getattr(layer, name)
        result = Result.of(subject.world, function(*inputs, *more_arguments(subject), **masks))
        result.grads = subject.world.gradients(result.values["output"], subject.leaves, layer)
        also(subject, result)
        return result

    return call


LOG_SOFTMAX = "log_softmax(logits)"


def also(subject: Subject, result: Result) -> None:
    """Check what `also` says of the gradients."""
    for text in subject.record.get("also", ()):
        found = re.fullmatch(r"gradient sums to 0 over the vocabulary at every \(b,t,u\) \((.+)\)", text)
        if found is None:
            raise UnknownError(f"unknown property {text!r}")
        if result.tensor("logits.grad").sum(-1).abs().max() >= float(found[1]):
            raise UnknownError(f"not so: {text}")


def shows(subject: Subject) -> Result:
    """The displayed text."""
    return Result(subject.world, text=display(subject.layer()))


def initialized(subject: Subject) -> Result:
    """The parameters of a new layer."""
    layer = subject.layer()
    values: dict[str, Any] = {param.path: param.tensor.detach() for param in params(layer)}
    for name in ("query", "key", "value", "output"):
        if hasattr(layer, name):
            values[f"{name}.bias_present"] = getattr(layer, name).bias is not None
    values["default_initializer"] = lambda form: (
        subject.config() == subject.config({**subject.record["config"], "initializer": form})
    )
    return Result(subject.world, values)


def layouts(subject: Subject) -> Result:
    """The shapes of a linear layer's weight of the layout Col, in the module and in its record."""
    from burnlike.record import Record

    # Without biases: those of the two directions differ in size, and loading checks that.
    config = subject.config().replace(bias=False)
    column, row = config.init(), config.replace(d_input=12, d_output=6, layout="row").init()
    again, twice = config.init(), config.init()
    Record.from_module(column).load_into(row)
    Record.from_module(column).load_into(again)
    Record.from_module(again).load_into(twice)
    shapes = [[*it.weight.shape] for it in (column, row, again, twice)]
    names = ("col_live", "record_of_col_loaded_into_row_12_6", "record_of_col_loaded_into_col")
    names = (*names, "saved_again_and_loaded_into_col")
    if not torch.equal(column.weight, twice.weight) or not torch.equal(column.weight.mT, row.weight):
        raise UnknownError("the weights differ")
    return Result(subject.world, {f"{name}_weight_dims": it for name, it in zip(names, shapes, strict=True)})


def train_valid_train(subject: Subject) -> Result:
    """Training, validation, training again."""
    layer = subject.layer().train()
    subject.called(layer)
    plain = valid(layer)
    outputs = {"valid": subject.called(plain), "train_again": subject.called(train(plain))}
    return Result(subject.world, outputs)


def statistics(name: str) -> Callable[[Subject], Result]:
    """A running statistic after one forward pass."""

    def call(subject: Subject) -> Result:
        layer = subject.layer()
        subject.called(layer)
        return Result(subject.world, {"output": subject.world.given(getattr(layer, name).detach())})

    return call


def field_of_config(*names: str) -> Callable[[Subject], Result]:
    """A field of the config; sizes that are left to the layer are read from it."""

    def call(subject: Subject) -> Result:
        config = subject.config()
        found = {name: getattr(config, name) for name in names or config.__struct_fields__}
        value = found if not names else next(iter(found.values()))
        if value is None:
            value = getattr(subject.layer(), names[0])
        return Result(subject.world, {"value": value})

    return call


CALLS: dict[str, Callable[[Subject], Result]] = {
    "forward": method("forward"),
    "forward(query, key, value)": method("forward"),
    **{name: method(name) for name in ("forward_no_reduction", "forward_with_reduction", "forward_reduce_dims")},
    "forward, backward": gradients("forward"),
    "forward, sum, backward": gradients("forward"),
    "forward, backward with ones": gradients("forward"),
    f"forward({LOG_SOFTMAX}), sum, backward": gradients("forward"),
    f"forward_with_reduction({LOG_SOFTMAX}), backward": gradients("forward_with_reduction"),
    "display": shows,
    "init": initialized,
    "layout": layouts,
    "train forward; valid(); forward; train(); forward": train_valid_train,
    "forward, then running_mean (synced)": statistics("running_mean"),
    "forward, then running_var (synced)": statistics("running_var"),
    **{name: field_of_config(name.removeprefix("config.")) for name in ("config.stride", "config.strides")},
    **{name: field_of_config(name) for name in ("p", "beta")},
    "config": field_of_config(),
}
