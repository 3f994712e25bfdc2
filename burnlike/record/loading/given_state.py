"""The state in a record for modules that load it by their own code."""

from functools import cached_property
from typing import Any

from torch import Tensor

from ...module.identity.torch_wrappers import bare_name
from ..derived.entries import decoded, entries_of, entry_tensors, is_entry, versions_in
from ..layout import join
from ..metadata import PICKLED, VERSIONS
from ..record import Record
from .matching import Matching


class GivenState:
    """The state in a record for a module's own code.

    Attributes:
        record: the record.
        matching: what belongs together by names or ids.
        names: path of a parameter -> the name of its tensor in the record.
        entries: name in the record -> its new name and tree, of entries that are no tensor of a parameter.
        skipped: paths and names that the filter leaves out.
        seen: names in the record of what a part was given.
        plain: new name -> plain value, where a file has a state dict's values as they are.
    """

    def __init__(self, record: Record, matching: Matching) -> None:
        self.record, self.matching = record, matching
        self.names = {it.param.path: it.name for it in matching.matches}
        self.entries: dict[str, tuple[str, Any]] = {}
        self.skipped: list[str] = []
        self.seen: set[str] = set()
        self.plain = {matching.rename(name): it for name, it in record.values.items() if not is_entry(it)}
        used = {*self.names.values()}
        for name, tree in entries_of(record.values):
            new_name = bare_name(matching.rename(name))
            if name in used:
                continue
            if matching.wants(name, new_name):
                self.entries[name] = new_name, tree
            else:
                self.skipped.append(new_name)
        of_entries = entry_tensors(record.values)
        self._alone = {name: bare_name(it) for name, it in matching.unmatched.items() if name not in of_entries}
        parts = {matching.rename(name) for name in of_entries if name not in used}
        self.skipped = [*(name for name in matching.skipped if name not in parts), *self.skipped]

    def tensor(self, name: str) -> Tensor:
        """A tensor that code may change; one in memory may be what another module computes with."""
        tensor = self.record.tensors[name].detach()
        return tensor.clone() if isinstance(self.record.tensors, dict) else tensor

    def below(self, prefix: str) -> dict[str, Any]:
        """New name -> tensor or entry, of what is below `prefix` and belongs to no parameter."""
        items: dict[str, Any] = {}
        for name, new_name in self._alone.items():
            if new_name.startswith(prefix):
                self.seen.add(name)
                items[new_name] = self.tensor(name)
        for name, (new_name, tree) in self.entries.items():
            if new_name.startswith(prefix):
                self.seen.add(name)
                items[new_name] = decoded(tree, name, self.record)
        return items

    @cached_property
    def versions(self) -> dict[str, dict[str, Any]] | None:
        """Path -> what torch noted about that module; None if the record doesn't say."""
        noted = versions_in(self.record.metadata, self.record.source)
        rename = self.matching.rename
        return None if noted is None else {rename(f"{path}.")[:-1]: it for path, it in noted.items()}

    def is_loaded_as_it_is(self, path: str) -> bool:
        """Whether the record has just the tensors of the part at `path`, and no code of its own had a share in them.

        So have records from before code was asked, and pickled modules. Where names differ, code may know why.
        """
        if VERSIONS in self.record.metadata or not (self.record.ids or PICKLED in self.record.metadata):
            return False
        prefix = join(path, "")
        return not any(it.startswith(prefix) for it in (*self.matching.missing, *self._alone.values()))

    def left(self) -> list[str]:
        """New names of what no part was given."""
        entries = {name: new_name for name, (new_name, _) in self.entries.items()}
        return [new_name for name, new_name in {**self._alone, **entries}.items() if name not in self.seen]

    def taken(self) -> list[str]:
        """New names of the entries that a part was given."""
        return [new_name for name, (new_name, _) in self.entries.items() if name in self.seen]
