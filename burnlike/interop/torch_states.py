"""State dicts of a TorchOptimizer: read, matched with parameters, and written.

Those of torch's own optimizers become records and state dicts of a TorchOptimizer, and the other way round.
"""

import copy
import json
import os
import warnings
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .._torch_compat.fsdp import sharded_forms
from .._torch_compat.modules import WRAPPED
from ..errors import RecordMismatchError
from ..module import Param, ParamId, params
from ..module.tree.paths import listed
from ..optim import OptimizerAdaptor
from ..optim.core.state import flatten
from ..optim.rules.config_base import MomentumConfig
from ..optim.schedules.learning_rates import checked_rate
from ..optim.states.matching import StateEntry, StateOwner, laid_out, match_entries, noted_layouts, options_of_groups
from ..optim.states.torch_records import (
    CONVERTED,
    RULES,
    TorchRule,
    expect_rule,
    from_torch,
    parts_of,
    read_torch_record,
    rule_in,
    state_record,
    to_torch,
    trained_by,
)
from ..record import LoadReport, Record
from ..record.layout import LAYOUTS
from ..record.torch_files.content import read_content
from .state_layouts import id_of_name, torch_parameters
from .torch_groups import options_of

Order = Optimizer | Iterable[Tensor] | Iterable[str]
_SOURCE = "the state dict"
_STRIPPED = [f"{name}." for name in WRAPPED]
_OF_CONFIG = ("amsgrad", "centered", "dampening", "lr_decay", "nesterov", "maximize", "decoupled_weight_decay")
"""Options of torch's groups that change a step, and that only the whole config has here."""


def import_torch_optimizer(
    state_dict: Mapping[str, Any] | str | os.PathLike[str], module: nn.Module, *, order: Order | None = None
) -> Record:
    """The state of a torch.optim Adam, AdamW, SGD, RMSprop or Adagrad as a record for `OptimizerAdaptor.load_record`.

    With equal settings the next step is torch's. The settings themselves (rates, betas, epsilon) are not taken over.

    Args:
        state_dict: what its `state_dict()` gave, or a file that `torch.save` made of that; no code in it is run.
        module: the module that it trained, or its twin of burnlike's layers (`from_torch`): its parameters get the
            states, laid out as they are.
        order: which parameters the numbers of the state dict mean, where it has no names (`param_names`): the
            parameters, or their paths, in the order that the optimizer was given them (`module.parameters()`), or an
            optimizer with the same groups.

    Returns:
        A record whose tensors are those of the state dict, each of the dtype that it has there.

    Raises:
        RecordMismatchError: it is of another optimizer, does not say which parameter a state is of, does not fit, or
            could lie as in Burn or as in torch; then give the module of torch's layers, and load the record into the
            other.
        RecordIOError: the file can't be read.
        RecordFormatError: it is none of `torch.save`, is damaged, or has objects that only code could make.

    Example:
        >>> from burnlike.optim import AdamWConfig
        >>> layer = nn.Linear(2, 1)
        >>> theirs = torch.optim.AdamW(layer.named_parameters())
        >>> record = import_torch_optimizer(theirs.state_dict(), layer)
        >>> ours = AdamWConfig(epsilon=1e-8, weight_decay=1e-2).init().load_record(record, layer)
    """
    content = state_dict if isinstance(state_dict, Mapping) else read_content(state_dict)
    if not isinstance(content, Mapping):
        where = os.fspath(cast("str", state_dict))
        raise RecordMismatchError(f"{where}: expected the state dict of an optimizer, got a {type(content).__name__}")
    states, groups = parts_of(content)
    options = f"one with the options {listed(sorted(map(str, groups[0])))}" if groups else "one without groups"
    rule = expect_rule(content, _SOURCE, options, "states of torch's other optimizers are not converted")
    owners = [StateOwner(param, param.id) for param in params(module, "weight")]
    keys = [key for group in groups for key in group["params"]]
    if order is not None and not isinstance(order, Optimizer):
        order = cast("Order", [*order])
    names = _names_in(groups, keys) if order is None else [] if isinstance(order, Optimizer) else [*order]
    twins = _in_torch_names(module, names)
    values: dict[str, Any] = {}
    if twins:
        targets = dict(zip(keys, twins, strict=True))
        values = {LAYOUTS: {str(twin.id): twin.note for twin in twins}}
    else:
        targets = {key: _Saved(it.id, it.path, it.tensor.shape) for key, it in _targets(groups, module, order).items()}
        if order is not None and not any(isinstance(name, str) for name in names):
            values = {LAYOUTS: noted_layouts([module])}  # of the parameters themselves it was made
    unknown = [key for key in states if key not in targets]
    if unknown:
        raise RecordMismatchError(f"{_SOURCE} has a state of {unknown[0]!r}, which is in none of its parameter groups")
    fields = _translated(rule, states, targets)
    source = f"{_SOURCE} of torch's {rule.name}"
    rows = ((targets[key].id, targets[key].path, field) for key, field in fields.items())
    record = laid_out(state_record(rows, source, **values), owners, [module], of_torch=True)
    return replace(record, values={**record.values, LAYOUTS: noted_layouts([module])})


def export_torch_optimizer(record: Record, optimizer: torch.optim.Optimizer, *modules: nn.Module) -> dict[str, Any]:
    """The states of a record as a state dict that torch's own `optimizer` of these `modules` can load.

    Args:
        record: what an OptimizerAdaptor's `into_record` gave, with states of Adam, AdamW, Sgd, RmsProp or AdaGrad.
        optimizer: the torch.optim Adam, AdamW, SGD, RMSprop or Adagrad that is to go on; it is not changed. Torch's
            `load_state_dict` then casts floating-point states to the dtype of their parameters.

    Raises:
        RecordMismatchError: the record is of another optimizer, or has states of parameters that it doesn't train.
        RecordError: it trains a parameter that no module has.
    """
    loaded = read_torch_record(optimizer, record, trained_by(optimizer, modules), modules)
    return {"state": loaded.state["state"], "param_groups": optimizer.state_dict()["param_groups"]}


def is_of_torch(state_dict: Any) -> bool:
    """True for the state dict of one of torch's own optimizers."""
    _, groups = parts_of(state_dict)
    return rule_in(state_dict) is not None and not any("param_ids" in group for group in groups)


def from_torch_dict(
    state_dict: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], params: Sequence[Param], rules: Sequence[Any],
    maximize: bool,
) -> dict[str, Any]:  # fmt: skip
    """The state dict of one of torch's optimizers in the form of a TorchOptimizer's, of `groups` with these `rules`.

    The groups have to have the same parameters, in the same order where the dict has no names of them. Other shapes,
    and options that this optimizer's config contradicts, are a RecordMismatchError.
    """
    states, theirs = parts_of(state_dict)
    rule = rule_in(state_dict)
    assert rule is not None
    sizes, wanted = [len(group["params"]) for group in theirs], [len(group["params"]) for group in groups]
    if sizes != wanted:
        raise RecordMismatchError(
            f"{_SOURCE} of torch's {rule.name} has groups of {sizes} parameters, and this optimizer of {wanted}; make a"
            " record of it with interop.import_torch_optimizer(state_dict, module, order=...), which is told the order"
        )
    rest = [*params]
    translated: dict[Any, Any] = {}
    new_groups: list[dict[str, Any]] = []
    for ours, group, our_rule in zip(groups, theirs, rules, strict=True):
        _check_options(group, ours, our_rule, maximize, rule.name)
        members, rest = rest[: len(ours["params"])], rest[len(ours["params"]) :]
        if "param_names" in group:
            by_path = _by_path(members)
            unknown = next((name for name in group["param_names"] if name not in by_path), None)
            if unknown is not None:
                raise RecordMismatchError(f"{_SOURCE} has a state of '{unknown}', which is in no such group here")
            members = [by_path[name] for name in group["param_names"]]
        saved = [_Saved(member.id, member.path, member.tensor.shape) for member in members]
        translated |= _translated(rule, states, dict(zip(group["params"], saved, strict=True)))
        options = {name: group[name] for name in ours if name in group and name not in ("params", "param_names")}
        names = {"param_names": [it.path for it in members], "param_ids": [str(it.id) for it in members]}
        new_groups.append({**options, **names, "params": group["params"]})
    return {"state": translated, "param_groups": new_groups}


def to_torch_dict(
    adaptor: OptimizerAdaptor[Any], groups: Sequence[Mapping[str, Any]], params: Sequence[Param], rules: Sequence[Any]
) -> dict[str, Any]:
    """The state as the optimizer of `torch.optim` with the same parameters in the same order loads it.

    A RecordMismatchError where `torch.optim` has no such rule, or the rule an option that torch's lacks.
    """
    param_of = enumerate(params)
    states: dict[int, Any] = {}
    new_groups: list[dict[str, Any]] = []
    for group, rule in zip(groups, rules, strict=True):
        kind, theirs = _group_of(rule, float(group["lr"]), adaptor.maximize)
        numbers = []
        for _ in group["params"]:
            number, param = next(param_of)
            numbers.append(number)
            if (state := adaptor.state_of(param)) is not None:
                tensors, values = flatten(state)
                states[number] = to_torch(kind, {**tensors, **values}, param.path, "the optimizer")
        new_groups.append({**theirs, "params": numbers})
    return {"state": states, "param_groups": new_groups}


def _rule_of(config: Any) -> TorchRule | None:
    return next((rule for rule in RULES if type(config).__name__ in rule.classes), None)


def _group_of(rule: Any, lr: float, maximize: bool) -> tuple[TorchRule, dict[str, Any]]:
    """The optimizer of torch and the options of a group of it, those that only torch has with its defaults."""
    config = getattr(rule, "config", None)
    kind = _rule_of(config)
    if kind is None or getattr(config, "cautious_weight_decay", False):
        what = type(rule).__name__ if kind is None else "cautious_weight_decay"
        raise RecordMismatchError(
            f"form='torch': expected the rule of one of torch's {CONVERTED}, got {what}; leave out form"
        )
    ours = {name: value for name in _OF_CONFIG if (value := _option(config, name, maximize)) is not None}
    ours.pop("decoupled_weight_decay", None)
    if not options_of(rule).get("momentum"):
        ours = {name: value for name, value in ours.items() if name not in ("dampening", "nesterov")}
    make = kind.classes[type(config).__name__]
    (group,) = make([torch.nn.Parameter(torch.empty(()))], lr=lr, **options_of(rule), **ours).param_groups
    return kind, {name: value for name, value in group.items() if name != "params"}


def _check_options(theirs: Mapping[str, Any], ours: Mapping[str, Any], rule: Any, maximize: bool, name: str) -> None:
    """Refuse options of torch's group that differ from this optimizer's config."""
    config = getattr(rule, "config", None)
    if _rule_of(config) is None:
        raise RecordMismatchError(f"{_SOURCE} is of torch's {name}, and this optimizer's rule is {type(rule).__name__}")
    pairs = [(name, theirs[name], _option(config, name, maximize)) for name in _OF_CONFIG if name in theirs]
    if theirs.get("momentum") and "momentum" not in ours:
        pairs.append(("momentum", theirs["momentum"], None))
    elif not theirs.get("momentum"):
        pairs = [pair for pair in pairs if pair[0] not in ("dampening", "nesterov")]
    for name, value, here in pairs:
        if (value or 0) != (here or 0):
            raise RecordMismatchError(
                f"{_SOURCE} is of an optimizer with {name}={value!r}, and the config of this one has {here!r}; make it"
                " with the same. The optimizer is as it was"
            )


def _option(config: Any, name: str, maximize: bool) -> Any:
    if name == "maximize":
        return maximize
    if name == "decoupled_weight_decay":
        return type(config).__name__ == "AdamWConfig"
    momentum = getattr(config, "momentum", None)
    if name in ("dampening", "nesterov"):
        return getattr(momentum, name, None) if isinstance(momentum, MomentumConfig) else None
    return getattr(config, name, None)


class _Saved(NamedTuple):
    """A parameter that a state dict means; the note says how it lies, where it is one of torch's that isn't here."""

    id: ParamId
    path: str
    shape: Sequence[int]
    note: Any = None


def _names_in(groups: Sequence[Mapping[str, Any]], keys: Sequence[Any]) -> list[Any]:
    """The names of the parameters of a state dict, as far as it has any."""
    # Where states are keyed by names, as torch.distributed.checkpoint makes them, the keys tell it.
    named = all(isinstance(key, str) for key in keys)
    return [*keys] if named else [name for group in groups for name in group.get("param_names", ())]


def _in_torch_names(module: nn.Module, names: Sequence[Any]) -> list[_Saved]:
    """The parameters with these names in the same model made of torch's layers; none if they are names in `module`."""
    by_path = _by_path(params(module, "weight"))
    if not names or not all(isinstance(name, str) for name in names):
        return []
    if all(_stripped(name, by_path) in by_path for name in names):
        return []
    in_torch = torch_parameters(module)
    shown = [_stripped(name, in_torch) for name in names]
    return [_Saved(id_of_name(it), it, *in_torch[it]) for it in shown] if all(it in in_torch for it in shown) else []


def _translated(rule: TorchRule, states: Mapping[Any, Any], targets: Mapping[Any, Any]) -> dict[Any, dict[str, Any]]:
    """The states by the names that they have here, by torch's keys; without those that are empty."""
    translated = {key: from_torch(rule, states.get(key, {}), it.shape, it.path, _SOURCE) for key, it in targets.items()}
    return {key: fields for key, fields in translated.items() if fields}


def _targets(groups: Sequence[Mapping[str, Any]], module: nn.Module, order: Order | None) -> dict[Any, Param]:
    """The parameter of each key of the states."""
    keys = [key for group in groups for key in group["params"]]
    meant: list[Param] = []
    if isinstance(order, torch.optim.Optimizer):
        meant, order = [target.param for target in trained_by(order, [module])], ()
    elif order is None:
        order = _names_in(groups, keys)
        if len(order) != len(keys):
            raise RecordMismatchError(
                f"{_SOURCE} has no names of parameters (param_names), and its numbers alone don't say which layer is"
                " meant; pass order=module.parameters() if its optimizer was made with that, or the parameters in the"
                " order that it got them"
            )
    weights = params(module, "weight")
    by_address, by_path, forms = {id(weight.tensor): weight for weight in weights}, _by_path(weights), sharded_forms()
    for place, item in enumerate(order):
        if isinstance(item, str):
            path = _stripped(item, by_path)
            if path not in by_path:
                raise RecordMismatchError(
                    f"{_SOURCE} has a state of '{item}', and {type(module).__name__} has no such parameter; it has"
                    f" {listed(list(by_path))}"
                )
            param = by_path[path]
        else:
            param = by_address.get(id(forms.get(id(item), item)))  # under FSDP, the DTensor in place of the parameter
        if param is None:
            raise RecordMismatchError(f"order[{place}] is no parameter of the {type(module).__name__}")
        meant.append(param)
    if len(meant) != len(keys):
        raise RecordMismatchError(f"{_SOURCE} has {len(keys)} parameters, and order has {len(meant)}")
    if len({param.id for param in meant}) < len(meant):
        raise RecordMismatchError(f"{_SOURCE}: a parameter is meant twice in order or param_names")
    return dict(zip(keys, meant, strict=True))


def _by_path(weights: Sequence[Param]) -> dict[str, Param]:
    return {path: param for param in weights for path in (param.path, *param.aliases)}


def _stripped(name: str, names: Container[str]) -> str:
    """The name without what wrappers put into it."""
    for prefix in _STRIPPED:
        name = name if name in names else name.replace(prefix, "")
    return name


_RANDOM_STEP = "random_step"
_WITH_STATE = "with_state"
_NO_OPTIONS = ("params", "param_names", "param_ids", _WITH_STATE, _RANDOM_STEP, LAYOUTS)


@dataclass(slots=True)
class SavedParam:
    """One parameter of a state dict: the key of its state, and the place of its group.

    The id is the parameter's when it was saved, made up where the dict doesn't say; so is the path, which is never made
    up.
    """

    key: Any
    id: ParamId
    path: str | None
    group: int


@dataclass(slots=True)
class SavedState:
    """A state dict that was read, its parameters in the order of its groups.

    Attributes:
        options: of each group, without what says which parameters it has.
        record: the states, as OptimizerAdaptor takes them.
        by_name: whether states are keyed by names, as `torch.distributed.checkpoint.state_dict` makes them.
        left_out: names of parameters that had a state when they were saved, and have none in the dict.
    """

    params: Sequence[SavedParam]
    options: Sequence[dict[str, Any]]
    record: Record
    by_name: bool
    left_out: Set[str | None]


def plain_state_dict(state_dict: Mapping[str, Any], random_step: int, layouts: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict of plain dicts and lists, with the names of the parameters that have a state.

    `layouts`, by ids, says how states lie; the state dict says it by names.
    """
    groups = [
        {name: [*value] if isinstance(value, list) else value for name, value in group.items()}
        for group in state_dict["param_groups"]
    ]
    for group in groups:
        named = zip(group["params"], group["param_names"], strict=True)
        group[_WITH_STATE] = [name for key, name in named if state_dict["state"].get(key)]
        ids = zip(group["param_names"], group["param_ids"], strict=True)
        # A text, since torch.distributed.checkpoint would take a dict to pieces.
        group[LAYOUTS] = json.dumps({name: layouts[text] for name, text in ids if text in layouts})
    if random_step:
        groups[0][_RANDOM_STEP] = random_step
    states = {key: fields.copy() for key, fields in state_dict["state"].items()}
    return {**state_dict, "state": states, "param_groups": groups}


def read_state_dict(state_dict: Mapping[str, Any], targets: Sequence[StateOwner]) -> SavedState:
    """Read a state dict that says the ids or the names of its parameters, changing nothing."""
    states, groups = parts_of(state_dict)
    taken_ids = {int(target.id) for target in targets}
    saved: list[SavedParam] = []
    for place, group in enumerate(groups):
        for key, text, path in _identities(group, place):
            # Any that no parameter has: the path then decides.
            made_up = next(it for it in range(len(saved), len(saved) + len(taken_ids) + 1) if it not in taken_ids)
            try:
                saved.append(SavedParam(key, ParamId(made_up) if text is None else ParamId.parse(text), path, place))
            except ValueError as error:
                raise RecordMismatchError(f"{_SOURCE}: param_ids: {error}") from error
    keys = {it.key for it in saved}
    states = _joined(states, keys)
    unknown = [key for key in states if key not in keys]
    if unknown:
        raise RecordMismatchError(f"{_SOURCE} has a state of {unknown[0]!r}, which is in none of its parameter groups")
    options = [{name: value for name, value in group.items() if name not in _NO_OPTIONS} for group in groups]
    random_step = max((group.get(_RANDOM_STEP, 0) for group in groups), default=0)
    rows = ((it.id, it.path, states.get(it.key, {})) for it in saved)
    values: dict[str, Any] = {_RANDOM_STEP: random_step}
    if any(LAYOUTS in group for group in groups) and None not in {it.path for it in saved}:
        layouts = {name: value for group in groups for name, value in _layouts_in(group).items()}
        values[LAYOUTS] = {str(it.id): layouts[it.path] for it in saved if it.path in layouts}
    record = state_record(rows, _SOURCE, **values)
    by_name = any(isinstance(it.key, str) for it in saved)
    with_state = [name for group in groups for name in group.get(_WITH_STATE) or ()]
    left_out = {it.path for it in saved if it.key not in states} & set(with_state)
    return SavedState(saved, options, record, by_name, left_out)


def _layouts_in(group: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        layouts = json.loads(group.get(LAYOUTS, "{}"))
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordMismatchError(f"{_SOURCE}: expected {LAYOUTS} as a text of JSON, got {error}") from error
    if not isinstance(layouts, dict):
        raise RecordMismatchError(f"{_SOURCE}: expected {LAYOUTS} by the names of parameters, got {layouts!r:.60}")
    return layouts


def warn_of_left_out(saved: SavedState, without: Sequence[str]) -> None:
    """Name the states that the checkpoint has and this load could not bring back, of the paths `without` one."""
    lost = [path for path in without if path in saved.left_out]
    if lost:
        warnings.warn(
            f"{_SOURCE} lacks states that were there when it was saved, of {listed(lost)}; these begin anew."
            " torch.distributed.checkpoint leaves out those of frozen parameters, and all where it loads into an"
            " optimizer without states: freeze after loading, take the state dict to load into from"
            " torch.distributed.checkpoint.state_dict, or save with burnlike.record.DistributedRecorder",
            stacklevel=2,
        )


def options_for(
    groups: Sequence[Sequence[str]], saved: SavedState, targets: Sequence[StateOwner], report: LoadReport | None
) -> list[dict[str, Any]]:
    """The options that each group of an optimizer, a list of ids, is to get: of the group its parameters were in."""
    entries = [StateEntry(parameter.id, parameter.path) for parameter in saved.params]
    group_of = {id(entry): parameter.group for entry, parameter in zip(entries, saved.params, strict=True)}
    matches, _ = match_entries(entries, targets, report)
    origin = {str(target.id): group_of[id(entry)] for entry, target in matches if target is not None}
    remedy = "pass keep_options=True to go on with those that the optimizer has now"
    options_of = options_of_groups(groups, origin, saved.options, _SOURCE, remedy)
    for options in options_of:
        if "lr" in options:
            checked_rate(options["lr"])
    return [copy.deepcopy({**options}) for options in options_of]


def _joined(states: Mapping[Any, Mapping[str, Any]], keys: Set[Any]) -> Mapping[Any, Mapping[str, Any]]:
    """The states, each with the fields that are under the text of its key.

    `torch.distributed.checkpoint` puts what it loads and is no tensor there, beside the state dict's own integers.
    """
    texts = {str(key): key for key in keys if isinstance(key, int)}
    joined = {key: fields for key, fields in states.items() if key not in texts}
    for text, fields in states.items():
        if text in texts:
            joined[texts[text]] = {**joined.get(texts[text], {}), **fields}
    return joined


def _identities(group: Mapping[str, Any], place: int) -> list[tuple[Any, str | None, str | None]]:
    """The key, id and path of each parameter of a group; None for an id or a path that the group doesn't say."""
    keys, names, ids = group["params"], group.get("param_names"), group.get("param_ids")
    for what, texts in (("param_names", names), ("param_ids", ids)):
        is_list = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
        if texts is not None and not (is_list and (len(texts) == len(keys) or isinstance(keys[0], str))):
            raise RecordMismatchError(f"{_SOURCE}: group {place}: expected {what} with a text for each of its params")
    if all(isinstance(key, str) for key in keys):
        # Keys are names, in the order of the optimizer that is to load them; names and ids are as they were saved.
        id_of = dict(zip(names or (), ids or (), strict=False))
        return [(key, id_of.get(key), key) for key in keys]
    if names is None and ids is None:
        raise RecordMismatchError(
            f"{_SOURCE} has neither param_ids nor param_names in group {place}, and states are not matched by their"
            f" place: two layers of one shape may have changed places. If it is of one of torch's {CONVERTED}, use"
            " interop.import_torch_optimizer(state_dict, module, order=...), which is told the order; states of torch's"
            " other optimizers are not converted"
        )
    none = [None] * len(keys)
    return list(zip(keys, ids or none, names or none, strict=True))
