"""Puts in what `${...}` refers to: another value of the config, or an environment variable.

The one thing that is run is a walk along keys. A tree that references blow up is refused within the limits of a file:
its values and its text are counted as often as they are repeated.
"""

import re
from typing import Any

from burnlike._env import user_variable
from burnlike.errors import ConfigError, Problem, nearest

from .document import MAX_BYTES
from .emit import to_plain
from .hiding import OPENING, FromEnvironment, escaped
from .node import (
    APPEND,
    MAX_DEPTH,
    MAX_VALUES,
    Entries,
    KeyPathError,
    Location,
    Node,
    Part,
    child,
    from_python,
    report,
    steps_of,
)
from .plain import INVALID, ScalarError, resolve
from .registry import TAG_FIELD, default_of, fields_of, of_any_role
from .words import got, listed, show, show_text

_TOKEN = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
_VARIABLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)(?:,(.*))?", re.DOTALL)
_COMPUTED = re.compile(r"[*/%()]|\s[-+]\s")
_DEEPEST = 2 * MAX_DEPTH
"""Levels and references that are open at once: each takes some of Python's stack."""
_FORMS = "expected ${path.to.a.value}, ${env:NAME} or ${env:NAME,default}"


class _WrongReference(Exception):
    """A `${...}` that can't be put in; the value that it stands in is reported with this message, if there is one."""


def interpolate(root: Node) -> tuple[Node, list[Problem]]:
    """The tree with every `${...}` put in, and the mistakes; a wrong value is `INVALID` and reported only here.

    A value that is one `${...}` becomes what that refers to, of whatever type. In a longer text it is put in as text.
    `$${` is the text `${`. The value keeps its place; what a reference to a mapping or a list brings keeps its own.
    """
    work = _Interpolation(root)
    try:
        return work.resolved(root, "").node, work.problems
    except _WrongReference as wrong:
        report(work.problems, root.place, "", str(wrong))
        raise ConfigError.of(work.problems) from wrong


def has_reference(node: Node) -> bool:
    """True if the value is a text with a `${`."""
    return isinstance(node.value, str) and OPENING in node.value


class _Interpolation:
    """One pass over a tree; each node is done once, wherever aliases and references repeat it."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.problems: list[Problem] = []
        self.done: dict[int, Part] = {}
        self.open: dict[int, str] = {}
        """The paths of the nodes being resolved, the outermost first."""
        self.characters = 0
        self.defaults: dict[tuple[int, str], Node | None] = {}
        """Defaults of fields that mappings leave out, by the mapping's node and the key."""

    def resolved(self, node: Node, path: str) -> Part:
        """The node without references; a _WrongReference where it refers to itself."""
        if not (node.is_map or node.is_list or has_reference(node)):
            return Part(node)
        if part := self.done.get(id(node)):
            return part
        if id(node) in self.open:
            chain = [*self.open.values()][[*self.open].index(id(node)) :]
            raise _WrongReference(f"refers to itself: {' -> '.join([*chain, chain[0]])}")
        if len(self.open) >= _DEEPEST:
            raise _WrongReference(f"references and levels are nested deeper than {_DEEPEST}")
        self.open[id(node)] = path
        try:
            result = self._text(node, path) if has_reference(node) else self._collection(node, path)
        finally:
            del self.open[id(node)]
        self.done[id(node)] = result
        return result

    def _collection(self, node: Node, path: str) -> Part:
        prefix = f"{path}." if path else ""
        is_map = node.is_map
        size, height = 1, 1
        items: Any = Entries() if is_map else []
        pairs: Any = node.value.items() if is_map else enumerate(node.value)
        for step, item in pairs:
            value = item.value if is_map else item
            if isinstance(value.value, Entries | list) or has_reference(value):
                part = self.resolved(value, f"{prefix}{show_text(step) if is_map else step}")
                value, size, height = part.node, size + part.size, max(height, part.height + 1)
            else:
                size += 1
            if is_map:
                items[step] = item._replace(value=value)
            else:
                items.append(value)
        if size > MAX_VALUES or height > MAX_DEPTH:
            limit = f"more than {MAX_VALUES} values" if size > MAX_VALUES else f"more than {MAX_DEPTH} levels"
            report(self.problems, node.place, path, f"holds {limit}, those repeated by references counted")
            raise ConfigError.of(self.problems)
        return Part(node.with_value(items), size, height)

    def _text(self, node: Node, path: str) -> Part:
        """The value of a text with references, or `INVALID`."""
        text: str = node.value
        try:
            whole = _TOKEN.fullmatch(text)
            if whole and whole[1] is not None:
                part = self._referred(whole)
                return part._replace(node=part.node.at(node.place, text))
            return Part(Node(self._put_together(text), node.place, reference=text))
        except _WrongReference as wrong:
            if str(wrong):
                report(self.problems, node.place, path, str(wrong))
        return Part(Node(INVALID, node.place))

    def _put_together(self, text: str) -> str:
        parts, end = [], 0
        for token in _TOKEN.finditer(text):
            parts += [text[end : token.start()], OPENING if token[1] is None else self._as_text(token)]
            end = token.end()
            self.characters += len(parts[-2]) + len(parts[-1])
            if self.characters > MAX_BYTES:
                raise _WrongReference(f"references make more than {MAX_BYTES // 2**20} MiB of text")
        parts.append(text[end:])
        whole = "".join(parts)
        is_secret = any(isinstance(part, FromEnvironment) for part in parts)
        return FromEnvironment(whole, "".join(map(escaped, parts))) if is_secret else whole

    def _as_text(self, token: re.Match[str]) -> str:
        node = self._referred(token).node
        if node.is_map or node.is_list:
            raise _WrongReference(f"{token[0]} is {got(node)}, which can't stand in a longer text; write it alone")
        text = node.value if isinstance(node.value, str) else node.text or show(node.value)
        return FromEnvironment(text, token[0]) if node.is_secret and not isinstance(text, FromEnvironment) else text

    def _referred(self, token: re.Match[str]) -> Part:
        """The value that one `${...}` stands for."""
        inner, spelled = token[1].strip(), show_text(token[0])
        if not token[2]:
            raise _WrongReference(f"the `${{` of {spelled!r} is not closed by `}}`; the text `${{` itself is `$${{`")
        if not inner or ":" in inner:
            return Part(_environment(inner, spelled))
        if _COMPUTED.search(inner):
            raise _WrongReference(f"{spelled}: nothing is computed in `${{...}}`; {_FORMS}")
        part = self._find(inner, spelled)
        if part.node.value is INVALID:
            raise _WrongReference  # that value is reported by itself
        return part

    def _find(self, path: str, spelled: str) -> Part:
        try:
            steps = steps_of(path)
        except KeyPathError as error:
            begins = "; a path begins at the root of the file" if path.startswith(".") else ""
            raise _WrongReference(f"{spelled}: {error}{begins}") from error
        node, walked = self.root, ""
        for step in steps:
            if has_reference(node):
                node = self.resolved(node, walked).node
            if node.value is INVALID:
                raise _WrongReference
            below = None if step == APPEND else child(node, str(step)) or self._default(node, str(step), walked)
            if below is None:
                raise _WrongReference(f"{spelled}: {self._nothing_there(node, walked, step)}")
            node, walked = below, f"{walked}.{step}" if walked else str(step)
        return self.resolved(node, walked)

    def _default(self, node: Node, key: str, path: str) -> Node | None:
        """The default of a field that a mapping with a `type` leaves out, None where there is none."""
        tag = child(node, TAG_FIELD) if node.is_map else None
        if tag is None or id(tag) in self.open:
            return None
        tag = self.resolved(tag, f"{path}.{TAG_FIELD}").node
        if (id(node), key) not in self.defaults:
            cls = of_any_role(tag.value) if isinstance(tag.value, str) else None
            field = None if cls is None else fields_of(cls).get(key)
            self.defaults[id(node), key] = None
            if field is not None and not field.required:
                plain = escaped(to_plain(default_of(field)))  # as it would be written
                self.defaults[id(node), key] = from_python(plain, Location("the default"))
        return self.defaults[id(node), key]

    def _nothing_there(self, node: Node, path: str, step: str | int) -> str:
        where = path or "the config"
        if node.is_list:
            return f"{where} has no item {step}; it is {got(node)}, counted from 0"
        if not node.is_map:
            return f"{where} is {got(node)}, which has no '{step}'"
        key = show_text(str(step))
        message = f"{where} has no '{key}'"
        if near := self._elsewhere(str(step)) or nearest(key, [*node.value]):
            return message + near
        if not path and key.isupper():
            return f"{message}; an environment variable is ${{env:{key}}}"
        return f"{message}; a reference finds what is written, and defaults beside `type`: {listed(node.value)}"

    def _elsewhere(self, key: str) -> str:
        """The hint at a key of exactly this name in another mapping."""
        paths = [("", self.root)]
        for path, node in paths:  # grows as it goes
            for name, entry in node.value.items():
                here = f"{path}.{name}" if path else name
                if name == key:
                    return f"; did you mean '{show_text(here)}'?"
                if entry.value.is_map and len(paths) < MAX_DEPTH:
                    paths.append((here, entry.value))
        return ""


def _environment(inner: str, spelled: str) -> Node:
    """The value of `${env:NAME}` or `${env:NAME,default}`, read as an unquoted YAML value."""
    match = _VARIABLE.fullmatch(inner)
    if match is None:
        raise _WrongReference(f"{spelled}: {_FORMS}")
    name, default = match.groups()
    value = user_variable(name)
    if value is None and default is None:
        raise _WrongReference(
            f"{spelled}: the environment variable {name} is not set; set it, or write ${{env:{name},default}}"
        )
    text = (default if value is None else value).strip()
    try:
        resolved = resolve(text)
    except ScalarError as error:
        raise _WrongReference(f"{spelled}: {show_text(text) if value is None else 'its value'} {error}") from error
    if value is None:
        return Node(resolved, text=text)
    secret = FromEnvironment(resolved, f"${{{inner}}}") if isinstance(resolved, str) else resolved
    return Node(secret, text=text, is_secret=True)
