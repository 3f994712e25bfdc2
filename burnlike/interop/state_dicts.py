"""State dicts of a TorchOptimizer: reading them, and matching their parts with parameters."""

import copy
import json
import warnings
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from ..errors import RecordMismatchError
from ..module import ParamId
from ..module.tree.paths import listed
from ..optim.schedules.learning_rates import checked_rate
from ..optim.states.matching import StateEntry, StateOwner, match_entries, options_of_groups
from ..optim.states.torch_records import parts_of, state_record
from ..record import LoadReport, Record
from ..record.layout import LAYOUTS

_SOURCE = "the state dict"
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
    options = [{name: it for name, it in group.items() if name not in _NO_OPTIONS} for group in groups]
    random_step = max((group.get(_RANDOM_STEP, 0) for group in groups), default=0)
    rows = ((it.id, it.path, states.get(it.key, {})) for it in saved)
    values: dict[str, Any] = {_RANDOM_STEP: random_step}
    if any(LAYOUTS in group for group in groups) and None not in {it.path for it in saved}:
        layouts = {name: it for group in groups for name, it in _layouts_in(group).items()}
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
    entries = [StateEntry(it.id, it.path) for it in saved.params]
    group_of = {id(entry): it.group for entry, it in zip(entries, saved.params, strict=True)}
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
        is_list = isinstance(texts, list) and all(isinstance(it, str) for it in texts)
        if texts is not None and not (is_list and (len(texts) == len(keys) or isinstance(keys[0], str))):
            raise RecordMismatchError(f"{_SOURCE}: group {place}: expected {what} with a text for each of its params")
    if all(isinstance(key, str) for key in keys):
        # Keys are names, in the order of the optimizer that is to load them; names and ids are as they were saved.
        id_of = dict(zip(names or (), ids or (), strict=False))
        return [(key, id_of.get(key), key) for key in keys]
    if names is None and ids is None:
        raise RecordMismatchError(
            f"{_SOURCE} has neither param_ids nor param_names in group {place}, and states are not matched by their"
            " place: two layers of one shape may have changed places. If it is of one of torch's own optimizers, use"
            " interop.import_torch_optimizer(state_dict, module, order=...), which is told the order"
        )
    none = [None] * len(keys)
    return list(zip(keys, ids or none, names or none, strict=True))
