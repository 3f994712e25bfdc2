"""The state of a module beside parameters and buffers, from `state_dict()`, as tensors and entries of a record."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ..._torch_compat.modules import STATE_METADATA
from ...errors import RecordError
from ...module import Param
from ...module.identity.torch_wrappers import bare_name, unwrap
from ...module.tree.walk import walk_of
from ..layout import join
from ..metadata import VERSIONS, dump_versions
from ..values import ENTRY
from .own_code import OwnCode, own_code
from .state_tree import encode_tree


@dataclass(frozen=True, slots=True)
class OwnState:
    """The tensors and entries that a module's own code adds to its record.

    Attributes:
        tensors: path of a parameter or buffer -> what it saves in its place.
        left_out: paths of parameters and buffers that it does not save.
        entries: name -> tensor of the entries that are none.
        values: name -> the entry.
        metadata: for the record.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    entries: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def changes_tensors(self) -> bool:
        """Whether the record has other tensors than the module, so that the module's layout is not the record's."""
        return bool(self.left_out or self.entries)


def own_state(module: nn.Module, found: Sequence[Param]) -> OwnState:
    """The content of `module.state_dict()` beside the tensors of `found`.

    Raises:
        RecordError: an entry holds an object that can't be stored without code.
    """
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
    return OwnState(tensors, left_out, entries, values, {VERSIONS: _versions_of(saved)})


def state_dict_of(module: nn.Module) -> Mapping[str, Any]:
    """The state dict, with the parameters themselves where the class lets it be asked for them."""
    try:
        return module.state_dict(keep_vars=True)
    except TypeError:  # an override without this argument
        return module.state_dict()


def assigned(saved: Mapping[str, Any], path: str, found: Sequence[Param]) -> Iterator[tuple[str, Any, Param | None]]:
    """Each name and value of a state dict, and the parameter or buffer that it is of; None if it is an entry.

    Args:
        saved: the state dict of the module at `path`.
        path: in the module that has `found`.
        found: the parameters.
    """
    known = {id(param.tensor): param for param in found}
    paths = {it: param for param in found for it in (param.path, *param.aliases)}
    for key, value in saved.items():
        name = join(path, bare_name(key))
        param = known.get(id(value))
        if param is None and isinstance(value, Tensor):
            param = paths.get(name)
        yield name, value, param


def encoded(value: Any, name: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The entry `name` as a plain value; its tensors go to `tensors`.

    Raises:
        RecordError: it holds an object that can't be stored without code.
    """
    below: dict[str, Tensor] = {}
    try:
        tree = encode_tree(value, "", below)
    except RecordError as error:
        text = str(error).removeprefix("'': ")
        raise RecordError(f"'{name}' of state_dict() can't be saved: {text}") from error
    for path, tensor in below.items():
        tensors[join(name, path) if path else name] = tensor
    return {ENTRY: tree}


def _versions_of(saved: Mapping[str, Any]) -> str:
    noted = getattr(saved, STATE_METADATA, {})
    return dump_versions({bare_name(f"{path}.")[:-1]: dict(it) for path, it in noted.items()})
