"""The flow file: YAML in, with the place of every word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from difflib import get_close_matches
from typing import Any

from headrace.declare.draft import KEY, Draft, Entry, Kind
from headrace.declare.scalars import Scalars
from headrace.errors import Problem, nearest
from headrace.model import Location, Places

LONGEST = 1_000_000
"""Characters a flow file may have; a longer one is not a flow."""
_MOST_VALUES = 50_000
"""Values a flow file may have once its aliases are followed; a bomb of aliases has more."""
_NAMED = re.compile(r"(?is)^\w+$|(?<=\sas\s)\w+\s*$")
"""The name of the column that an item of a list makes: it can be looked for by that, too."""
_DEEPEST = 300
"""Brackets that may be open at once; the YAML library takes seconds to give up on thousands."""
SECTIONS: dict[str, Kind] = {"sources": "source", "steps": "step", "sinks": "sink"}
TOP = ("flow", "description", "goal", "state", "parameters", "dead_letters", "spark", *SECTIONS)


def read(text: str, file: str = "<flow>") -> Draft:
    """The draft a flow file holds. Never raises for what an author may write; problems are in the draft."""
    if len(text) > LONGEST:
        at = Location(file)
        message = f"the file has {len(text):,} characters; at most {LONGEST:,} are read"
        problem = Problem(code="bad-flow", message=message, location=at)
        return Draft(name="unreadable", places=Places(at), problems=(problem,))
    duplicates: list[Problem] = []
    try:
        _require_shallow(text)
        scalars = Scalars(text)
        data = yaml_of(file, duplicates, scalars).load(text)
        return _Walker(file, scalars).draft(data, duplicates)
    except Exception as error:  # noqa: BLE001 - the YAML library raises many kinds for hostile input
        problem = _not_yaml(error, file, text)
        return Draft(name="unreadable", places=Places(problem.location), problems=(problem,))


def draft_of(tree: Mapping[str, Any], file: str, problems: list[Problem]) -> Draft:
    """The draft of a tree in the shape of a flow file, from whatever text it was read."""
    try:
        return _Walker(file).draft(tree, problems)
    except (_TooMuchError, RecursionError) as error:
        message = (
            "the file is nested too deeply" if isinstance(error, RecursionError) else "the file has too many values"
        )
        problem = Problem(code="bad-flow", message=message, location=Location(file))
        return Draft(name="unreadable", places=Places(problem.location), problems=(*problems, problem))


def plain_yaml(text: str, file: str) -> tuple[Any, list[Problem]]:
    """The plain values of any YAML file of ours (cases, not flows), and what is wrong with its YAML."""
    problems: list[Problem] = []
    try:
        _require_shallow(text)
        return _Walker(file).plain(yaml_of(file, problems).load(text)), problems
    except Exception as error:  # noqa: BLE001 - as above
        return None, [*problems, _not_yaml(error, file, text)]


def names_in(text: str) -> list[list[str]]:
    """The names at the top of each document of a YAML text; none if it cannot be read."""
    from ruamel.yaml import YAML

    try:
        found = list(YAML(typ="safe", pure=True).compose_all(text))
    except Exception:  # noqa: BLE001 - as above
        return []
    return [[str(key.value) for key, _ in node.value] if node.id == "mapping" else [] for node in found]


class _TooMuchError(Exception):
    """More values than a flow can have."""


def _not_yaml(error: Exception, file: str, text: str) -> Problem:
    """Why a text could not be read, at its place."""
    from ruamel.yaml.reader import ReaderError

    mark = getattr(error, "problem_mark", None)
    at = Location(file, mark.line + 1, mark.column + 1) if mark is not None else Location(file)
    if isinstance(error, RecursionError):
        reason, at = "it is nested too deeply", _place(text, _too_deep(text), file)
    elif isinstance(error, ReaderError):
        place = error.position
        reason, at = f"it has the character U+{ord(text[place]):04X}, which is no text", _place(text, place, file)
    elif isinstance(error, _TooMuchError):
        reason = "it has too many values once its aliases are followed"
    else:
        reason = (str(getattr(error, "problem", None) or error) or type(error).__name__).splitlines()[0]
    return Problem(code="bad-yaml", message=f"the file is not YAML that can be read: {reason}", location=at)


def _place(text: str, at: int, file: str) -> Location:
    return Location(file, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _require_shallow(text: str) -> None:
    """Raises RecursionError where more brackets are open than any flow has."""
    if _too_deep(text):
        raise RecursionError


def _too_deep(text: str) -> int:
    """Where too many brackets are open, as far as can be told without reading on; 0: nowhere."""
    opened = 0
    for found in re.finditer(r"[\[\]{}]", text):
        opened = max(0, opened + (1 if found[0] in "[{" else -1))
        if opened > _DEEPEST:
            return found.start()
    return 0


def yaml_of(file: str, duplicates: list[Problem], scalars: Scalars | None = None) -> Any:
    """A round-trip YAML reader that notes a repeated name instead of stopping at it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import ConstructorError, RoundTripConstructor

    class Constructor(RoundTripConstructor):
        def construct_scalar(self, node: Any) -> Any:
            made = super().construct_scalar(node)
            if scalars is not None and isinstance(made, str):
                scalars.note(node, made)
            return made

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            if node in self.recursive_objects and node not in self.constructed_objects:
                raise ConstructorError(None, None, "an alias stands within what it names", node.start_mark)
            return super().construct_object(node, deep)

        def construct_or_text(self, node: Any) -> Any:
            """A number or a time; if there is no such one, such as 2026-02-30, its text, for the option to refuse."""
            try:
                return RoundTripConstructor.yaml_constructors[node.tag](self, node)
            except ValueError:
                return node.value

        def check_mapping_key(self, node: Any, key_node: Any, mapping: Any, key: Any, value: Any) -> bool:
            if key in mapping:
                mark = key_node.start_mark
                duplicates.append(
                    Problem(
                        code="duplicate-name",
                        message=f'"{key}" is written twice',
                        location=Location(file, mark.line + 1, mark.column + 1),
                        hint="the second one is not used; give it another name or remove it",
                    )
                )
                return False
            return True

    for kind in ("int", "float", "timestamp"):
        Constructor.add_constructor(f"tag:yaml.org,2002:{kind}", Constructor.construct_or_text)
    yaml = YAML(typ="rt")
    yaml.Constructor = Constructor
    yaml.preserve_quotes = True
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


class _Walker:
    """Turns a YAML tree into plain values and the places they stood."""

    def __init__(self, file: str, scalars: Scalars | None = None) -> None:
        self.file, self.values = file, 0
        self.scalars = scalars or Scalars("")
        self.problems: list[Problem] = []

    def say(self, code: str, message: str, location: Location, hint: str = "") -> None:
        self.problems.append(Problem(code=code, message=message, location=location, hint=hint))

    def draft(self, data: Any, duplicates: list[Problem]) -> Draft:
        start = Location(self.file, 1, 1)
        if not isinstance(data, Mapping):
            self.say(
                "bad-flow", "a flow file is a mapping: flow, sources, steps, sinks", start, "begin with `flow: NAME`"
            )
            return Draft(name="unreadable", places=Places(start), problems=(*duplicates, *self.problems))
        places = self._places(data, start)
        unknown = [str(key) for key in data if key not in TOP]
        for key in unknown:
            self.say("unknown-option", f'a flow has no "{key}"', places.at(key, KEY), nearest(key, TOP))
        name = data.get("flow")
        if name is None and get_close_matches("flow", unknown, n=1):
            name = "unnamed"
        if not isinstance(name, str):
            found = "" if name is None else f", not {self.plain(name)!r}"
            self.say("bad-flow", f"a flow needs a name{found}", places.at("flow"), "begin with `flow: NAME`")
            name = "unnamed"
        return Draft(
            name=str(name),
            description=str(data.get("description") or ""),
            spark=self._section(data, "spark", places),
            goal=self.plain(data.get("goal")),
            state=self.plain(data.get("state")),
            parameters=self._section(data, "parameters", places),
            dead_letters=self.plain(data.get("dead_letters")),
            entries=tuple(e for section, kind in SECTIONS.items() for e in self._entries(data, section, kind, places)),
            places=places,
            problems=(*duplicates, *self.problems),
        )

    def _section(self, data: Mapping[str, Any], section: str, places: Places) -> Mapping[str, Any]:
        found = data.get(section)
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            self.say("bad-flow", f'"{section}" is a mapping of names', places.at(section), "write `name: …` below it")
            return {}
        return {str(k): self.plain(v) for k, v in found.items()} if section in ("spark", "parameters") else found

    def _entries(self, data: Mapping[str, Any], section: str, kind: Kind, top: Places) -> list[Entry]:
        entries = []
        found = self._section(data, section, top)
        for name, body in found.items():
            location = self._key_location(found, name, top.at(section))
            if not isinstance(body, Mapping):
                self.say("bad-flow", f'{kind} "{name}" is not a mapping', location, "write its options below it")
                body = {}
                places = Places(location)
            else:
                places = self._places(body, location)
            plain = {str(k): self.plain(v) for k, v in body.items()}
            entries.append(Entry(kind=kind, name=str(name), data=plain, places=places))
        return entries

    def _places(self, node: Any, location: Location) -> Places:
        found: dict[tuple[str | int, ...], Location] = {}
        self._locate(node, (), location, found)
        return Places(location, found)

    def _locate(self, node: Any, path: tuple[Any, ...], near: Location, found: dict[tuple[Any, ...], Location]) -> None:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise _TooMuchError
        if isinstance(node, Mapping):
            for key, value in node.items():
                found[(*path, key, KEY)] = self._key_location(node, key, near)
                found[(*path, key)] = self._value_location(node, key, near)
                self._locate(value, (*path, key), found[(*path, key)], found)
        elif isinstance(node, list):
            for index, value in enumerate(node):
                found[(*path, index)] = self._item_location(node, index, near)
                self._locate(value, (*path, index), found[(*path, index)], found)
                if isinstance(value, Mapping):
                    named = {(*path, key): found[(*path, index, key)] for key in value}
                else:
                    named = {(*path, name): found[(*path, index)] for name in _NAMED.findall(str(value))}
                found |= {key: at for key, at in named.items() if key not in found}

    def _key_location(self, node: Any, key: Any, near: Location) -> Location:
        return self._mark(getattr(node, "lc", None), "key", key, near)

    def _value_location(self, node: Any, key: Any, near: Location) -> Location:
        return self._mark(getattr(node, "lc", None), "value", key, near)

    def _item_location(self, node: Any, index: int, near: Location) -> Location:
        return self._mark(getattr(node, "lc", None), "item", index, near)

    def _mark(self, lines: Any, what: str, key: Any, near: Location) -> Location:
        try:
            found = getattr(lines, what)(key)
            if isinstance(found, Location):
                return found
            at = Location(self.file, found[0] + 1, found[1] + 1)
            return at if what == "key" else self.scalars.at(at)
        except (KeyError, TypeError, AttributeError, IndexError):  # merged by << or made by an alias
            return near

    def plain(self, node: Any) -> Any:
        """Ordinary Python values of a YAML tree."""
        self.values += 1
        if self.values > 2 * _MOST_VALUES:
            raise _TooMuchError
        if isinstance(node, Mapping):
            return {(k if isinstance(k, str | int) else str(k)): self.plain(v) for k, v in node.items()}
        if isinstance(node, list | tuple | Set):
            return [self.plain(v) for v in node]
        if isinstance(node, bool) or node is None:
            return node
        if isinstance(node, bytes):
            return bytes(node)
        for kind in (int, float):
            if isinstance(node, kind):
                return kind(node)
        return str(node)
