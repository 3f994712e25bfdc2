"""State of a module beside its parameters and buffers: entries of `state_dict()`, among the values of a record.

An entry stands under its name, `{"$entry": tree}`, where the tree names its tensors by their paths below the entry; the
record has them under the entry's name and that path.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from ..._torch_compat.modules import STATE_METADATA
from ...errors import RecordError, RecordFormatError
from ...module import Param
from ...module.torch_objects.wrappers import bare_name, unwrap
from ...module.tree.walk import walk_of
from ..layout import join
from ..metadata import VERSIONS, dump_versions
from ..values import ENTRY, from_json
from .own_code import OwnCode, own_code, path_of
from .state_tree import TENSOR_TAGS, decode_tree, encode_tree

if TYPE_CHECKING:
    from ..record import Record


def is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) == 1 and ENTRY in value


def entries_of(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each entry's name and tree, wherever it is among a record's values."""
    for key, value in values.items():
        if is_entry(value):
            yield join(prefix, key), value[ENTRY]
        elif isinstance(value, Mapping):
            yield from entries_of(value, join(prefix, key))


def tensors_in(tree: Any, name: str) -> Iterator[str]:
    """The names of the record's tensors that the entry `name` has."""
    if isinstance(tree, list):
        for item in tree:
            yield from tensors_in(item, name)
    elif isinstance(tree, Mapping):
        tag, path = next(iter(tree.items()), ("", None))
        if len(tree) == 1 and tag in TENSOR_TAGS and isinstance(path, str):
            yield join(name, path) if path else name
        else:
            for item in tree.values():
                yield from tensors_in(item, name)


def entry_tensors(values: Mapping[str, Any]) -> set[str]:
    return {at for name, tree in entries_of(values) for at in tensors_in(tree, name)}


def decoded(tree: Any, name: str, record: "Record") -> Any:
    """The entry `name` of a record as the module gave it; its tensors are read."""
    tensors = {}
    for at in tensors_in(tree, name):
        first = record.aliases.get(at, at)
        if first in record.tensors:
            tensors[at.removeprefix(name).removeprefix(".")] = record.tensors[first].detach()
    return decode_tree(tree, tensors, record.source)


def versions_in(metadata: Mapping[str, Any], source: str) -> dict[str, dict[str, Any]] | None:
    """Path -> what torch noted about that module; None if the record doesn't say."""
    if (text := metadata.get(VERSIONS)) is None:
        return None
    try:
        found = from_json(json.loads(text), f"{source}: {VERSIONS}")
    except (ValueError, TypeError, RecursionError) as error:
        raise RecordFormatError(f"{source}: {VERSIONS} is damaged ({error}); save or fetch it again") from error
    if not isinstance(found, dict) or not all(isinstance(it, dict) for it in found.values()):
        raise RecordFormatError(f"{source}: {VERSIONS} is damaged; save or fetch it again")
    return found


def renamed_versions(metadata: Mapping[str, Any], source: str, new_name: Callable[[str], str | None]) -> dict[str, str]:
    """The versions in a record's metadata, under their key, for modules of other names; nothing if it has none.

    A module whose new name is None is left out.
    """
    found = versions_in(metadata, source)
    named = {new: it for path, it in (found or {}).items() if (new := new_name(path)) is not None}
    return {} if found is None else {VERSIONS: dump_versions(named)}


def versions_together(parts: Mapping[str, "Record"]) -> dict[str, str]:
    """As `renamed_versions`, of several records: path -> the record that goes there."""
    noted = {path: versions_in(record.metadata, record.source) for path, record in parts.items()}
    known = {path: it for path, it in noted.items() if it is not None}
    pairs = {join(path, name) if name else path: it for path, found in known.items() for name, it in found.items()}
    return {VERSIONS: dump_versions(pairs)} if known else {}


@dataclass(frozen=True, slots=True)
class OwnState:
    """The tensors and entries that a module's own code adds to its record.

    Attributes:
        tensors: path of a parameter or buffer -> what it saves in its place.
        left_out: paths of parameters and buffers that it does not save.
        entries: name -> tensor, of those in `values`, which are the entries by name.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    entries: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def changes_tensors(self) -> bool:
        return bool(self.left_out or self.entries)


def own_state(module: nn.Module, found: Sequence[Param]) -> OwnState:
    """The content of `module.state_dict()` beside the tensors of `found`."""
    root = unwrap(module)
    if not any(code is OwnCode.ALWAYS for _, code in own_code((root, *walk_of(root).modules))):
        return OwnState()
    saved = state_dict_of(root)
    tensors: dict[str, Tensor] = {}
    entries: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    there: set[str] = set()
    for name, value, param in assigned(saved, "", found):
        if param is None:
            values[name] = encoded(value, name, entries)
            continue
        there.add(param.path)
        if value is not param.tensor:
            tensors[param.path] = value.detach()
    paths = {path for param in found for path in (param.path, *param.aliases)}
    if both := paths & (values.keys() | entries.keys()):
        raise RecordError(f"{type(module).__name__} saves '{min(both)}' beside a tensor of that name; rename one")
    left_out = frozenset(param.path for param in found if param.path not in there)
    noted = getattr(saved, STATE_METADATA, {})
    versions = dump_versions({path_of(path): dict(it) for path, it in noted.items()})
    return OwnState(tensors, left_out, entries, values, {VERSIONS: versions})


def state_dict_of(module: nn.Module) -> Mapping[str, Any]:
    """The state dict, with the parameters themselves where the class lets it be asked for them."""
    try:
        return module.state_dict(keep_vars=True)
    except TypeError:  # an override without this argument
        return module.state_dict()


def assigned(saved: Mapping[str, Any], path: str, found: Sequence[Param]) -> Iterator[tuple[str, Any, Param | None]]:
    """Each name and value of the state dict of the module at `path`, and the parameter it is of; None for entries."""
    known = {id(param.tensor): param for param in found}
    paths = {it: param for param in found for it in (param.path, *param.aliases)}
    for key, value in saved.items():
        name = join(path, bare_name(key))
        param = known.get(id(value))
        if param is None and isinstance(value, Tensor):
            param = paths.get(name)
        yield name, value, param


def encoded(value: Any, name: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The entry `name` as a plain value; its tensors go to `tensors`."""
    below: dict[str, Tensor] = {}
    try:
        tree = encode_tree(value, "", below)
    except RecordError as error:
        text = str(error).removeprefix("'': ")
        raise RecordError(f"'{name}' of state_dict() can't be saved: {text}") from error
    tensors |= {join(name, path) if path else name: tensor for path, tensor in below.items()}
    return {ENTRY: tree}
