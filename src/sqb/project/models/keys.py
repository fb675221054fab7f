"""The keys a model can set: what each is called, takes and affects, and whether this version carries it out.

`KEYS` is the one list; making a key or a kind available is an edit of its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum, auto
from functools import lru_cache

from sqb.errors.base import Errors
from sqb.errors.project import BadValue, Contradiction, DuplicateKey, MissingKey, ProjectError, UnknownKind
from sqb.light_dataclass import dataclass
from sqb.names import At, suggest_nearest
from sqb.project.config.located import Entry, build_unknown_key, describe, format_option, iter_dotted, to_plain_value
from sqb.project.models.contract import read_contract
from sqb.project.models.cursor import check_cursor
from sqb.project.models.grammar import Leaf, Malformed, Span, build_call_leaf, read_items, read_text_leaf, trim
from sqb.project.models.kinds import KINDS
from sqb.project.models.other_tools import explain_kind
from sqb.project.values import Call, Config, ContractColumn, Header, Setting, Statement, Value


class Shape(Enum):
    """What a key takes."""

    WORD = auto()  # one name, without spaces
    TEXT = auto()  # free text
    CHOICE = auto()  # one of `choices`
    FLAG = auto()  # true or false
    NAMES = auto()  # names
    EXPRESSIONS = auto()  # SQL expressions, kept as written
    CALLS = auto()  # checks such as not_null(id)
    STATEMENTS = auto()  # SQL statements
    COLUMNS = auto()  # column names, with or without descriptions
    CONTRACT = auto()  # columns with their types
    OPTIONS = auto()  # names and texts
    MAPPING = auto()  # free values


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a model: `identity` keys are part of its fingerprint; `repeats` keys add up when given again."""

    name: str
    shape: Shape
    synonyms: tuple[str, ...] = ()
    identity: bool = False
    repeats: bool = False
    stored_only: bool = False
    # The only kinds that it means something for; empty for all.
    kinds: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    value_synonyms: Mapping[str, str] = field(default_factory=dict)
    unknown: type[ProjectError] = BadValue


_CURSOR = ("incremental",)

_ALL = (
    Key(
        "kind",
        Shape.CHOICE,
        ("materialized",),
        identity=True,
        choices=tuple(KINDS),
        value_synonyms={"snapshot": "scd2"},
        unknown=UnknownKind,
    ),
    Key("unique_key", Shape.NAMES, identity=True, kinds=("merge", "scd2", "incremental")),
    Key("group_key", Shape.NAMES, identity=True, kinds=("tracked",)),
    # `-- @incremental: updated_at` says the kind too: see the header.
    Key("cursor", Shape.WORD, ("incremental",), identity=True, kinds=_CURSOR),
    Key("cursor_type", Shape.CHOICE, identity=True, kinds=_CURSOR, choices=("timestamp", "integer")),
    Key("cursor_start", Shape.TEXT, ("incremental_initial",), identity=True, kinds=_CURSOR),
    Key("cursor_grain", Shape.WORD, identity=True, kinds=_CURSOR),
    Key("lookback", Shape.WORD, kinds=_CURSOR),
    Key(
        "incremental_strategy",
        Shape.CHOICE,
        identity=True,
        kinds=_CURSOR,
        choices=("append", "delete_insert", "merge"),
    ),
    Key("replay_on_change", Shape.WORD, ("query_change_backfill",), kinds=_CURSOR),
    Key(
        "on_schema_change",
        Shape.CHOICE,
        kinds=("append", "scd2", "incremental"),
        choices=("append_new_columns", "sync_all_columns", "ignore", "fail"),
    ),
    Key("run_despite_unchanged", Shape.WORD, kinds=("table",)),
    Key("refresh", Shape.CHOICE, choices=("auto", "incremental", "full")),
    Key("aggregate_state", Shape.FLAG, kinds=("table", "merge")),
    Key("on_source_delete", Shape.CHOICE, identity=True, kinds=("merge",), choices=("delete", "keep")),
    Key("lookups", Shape.NAMES, ("lookup",), repeats=True, kinds=("append",)),
    Key("on_drift", Shape.CHOICE, choices=("rebuild", "warn", "fail")),
    Key("partitioned_by", Shape.EXPRESSIONS, identity=True, stored_only=True),
    Key("sorted_by", Shape.EXPRESSIONS, identity=True, stored_only=True),
    Key("tags", Shape.NAMES, ("tag",), repeats=True),
    Key("description", Shape.TEXT),
    Key("owner", Shape.TEXT),
    Key("group", Shape.TEXT),
    Key("columns", Shape.COLUMNS, ("column",), repeats=True),
    Key("constraints", Shape.CALLS, ("constraint",), repeats=True),
    Key("audits", Shape.CALLS, ("audit",), repeats=True),
    Key("warnings", Shape.CALLS, ("warning",), repeats=True),
    Key("pre_hooks", Shape.STATEMENTS, ("pre_hook",), identity=True, repeats=True),
    Key("post_hooks", Shape.STATEMENTS, ("post_hook",), identity=True, repeats=True),
    Key("contract", Shape.CONTRACT, identity=True, repeats=True),
    Key("materialization", Shape.WORD, identity=True, kinds=("custom",)),
    Key("config", Shape.MAPPING, identity=True),
    Key("schema", Shape.WORD),
    Key("alias", Shape.WORD),
    Key("table_properties", Shape.OPTIONS, identity=True, stored_only=True),
    Key("enabled", Shape.FLAG),
    Key("renamed_from", Shape.NAMES),
)

KEYS: Mapping[str, Key] = {key.name: key for key in _ALL}
_BY_WORD: Mapping[str, Key] = {word: key for key in _ALL for word in (key.name, *key.synonyms)}
WORDS: tuple[str, ...] = tuple(_BY_WORD)


def find_key(word: str) -> Key | None:
    """The key that a word names, by its own name or a synonym, in any case."""
    return _BY_WORD.get(word.lower())


class _Wrong(Exception):
    """A value that its key does not take."""

    def __init__(self, expected: str, hint: str | None = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.hint = hint


def normalize_setting(key: Key, setting: Setting, errors: Errors) -> Setting | None:
    """The setting with its value checked and in canonical form; None when it was reported as wrong."""
    try:
        match key.shape:
            case Shape.CHOICE:
                return _normalize_choice(key, setting, errors)
            case Shape.WORD:
                value: Value = _to_word(setting.value)
            case Shape.TEXT:
                value = _to_text(setting.value)
            case Shape.FLAG:
                value = _to_flag(setting.value)
            case Shape.NAMES:
                value = tuple(dict.fromkeys(_to_word(item) for item in _to_items(setting.value)))
            case Shape.EXPRESSIONS:
                value = tuple(_to_text(item) for item in _to_items(setting.value))
            case Shape.STATEMENTS:
                value = _to_statements(setting)
            case Shape.CALLS:
                value = _to_calls(setting)
            case Shape.COLUMNS:
                value = _to_columns(setting.value)
            case Shape.CONTRACT:
                value = _to_contract(setting.value)
            case Shape.OPTIONS:
                value = _to_options(setting.value)
            case Shape.MAPPING:
                value = _to_mapping(setting.value)
        return Setting(value, setting.at)
    except _Wrong as wrong:
        message = f"`{key.name}` must be {wrong.expected}, not {describe(setting.value)}"
        errors.add(BadValue(message, at=setting.at, hint=wrong.hint))
        return None


def _normalize_choice(key: Key, setting: Setting, errors: Errors) -> Setting | None:
    if not isinstance(setting.value, str):
        raise _Wrong(f"one of {', '.join(key.choices)}")
    word = setting.value.strip().lower()
    word = key.value_synonyms.get(word, word)
    if word in key.choices:
        return Setting(word, setting.at)
    possible = (*key.choices, *key.value_synonyms)
    elsewhere = explain_kind(setting.value) if key.name == "kind" else None
    hint = (
        elsewhere
        or _find_missing_comma(word)
        or suggest_nearest(word, possible)
        or f"`{key.name}` is one of {', '.join(possible)}"
    )
    errors.add(key.unknown(f'there is no {key.name} "{" ".join(setting.value.split())}"', at=setting.at, hint=hint))
    return None


def _find_missing_comma(text: str) -> str | None:
    first = text.split()
    return f"is a comma missing after `{first[0]}`?" if len(first) > 1 else None


def _to_text(value: Value) -> str:
    if not isinstance(value, str):
        raise _Wrong("text", "put it in quotes" if isinstance(value, int | float) else None)
    if not value.strip():
        raise _Wrong("text that is not empty")
    return value.strip()


def _to_word(value: Value) -> str:
    text = _to_text(value)
    if re.search(r"\s", text):
        raise _Wrong("a name without spaces", _find_missing_comma(text))
    return text


def _to_flag(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise _Wrong("true or false")


def _to_items(value: Value, leaf: Leaf = read_text_leaf) -> Iterable[Value]:
    match value:
        case list() | tuple():
            return value
        case str():
            try:
                return read_items(value, trim(value, Span(0, len(value))), leaf)
            except Malformed as problem:
                raise _Wrong("a list", problem.message) from None
        case _:
            raise _Wrong("a name or a list of names")


def _to_statements(setting: Setting) -> tuple[Statement, ...]:
    """Statements with the places that a header gives them; in a configuration file they are texts."""
    values = [setting.value] if isinstance(setting.value, str) else setting.value
    if not isinstance(values, list | tuple):
        raise _Wrong("SQL statements")
    return tuple(s if isinstance(s, Statement) else Statement(_to_text(s), setting.at) for s in values)


def _to_calls(setting: Setting) -> tuple[Call, ...]:
    """Checks with the places that a header gives them; elsewhere they are texts, one for all or one for each."""
    leaf = build_call_leaf(setting.at.file, setting.at)
    calls: list[Value] = []
    for item in _to_items(setting.value, leaf):
        calls += _to_items(item, leaf) if isinstance(item, str) else [item]
    if not all(isinstance(item, Call) for item in calls):
        raise _Wrong("a check such as not_null(id)")
    return tuple(item for item in calls if isinstance(item, Call))


def _to_columns(value: Value) -> dict[str, str]:
    match value:
        case dict():
            texts = {name: format_option(text) for name, text in value.items()}
        case _:
            texts = {_to_word(item): "" for item in _to_items(value)}
    if any(text is None for text in texts.values()):
        raise _Wrong("column names with their descriptions")
    return {name: text.strip() for name, text in texts.items() if text is not None}


def _to_contract(value: Value) -> tuple[ContractColumn, ...]:
    """Columns that a header gave, which may have come in several lines; in a configuration file they are texts."""
    expected = "columns with their types"
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not items:
        raise _Wrong(expected, "write `id bigint not null, name string`")
    columns: list[ContractColumn] = []
    for item in items:
        if not isinstance(item, ContractColumn | str):
            raise _Wrong(expected)
        try:
            columns += [item] if isinstance(item, ContractColumn) else read_contract(item, Span(0, len(item)))
        except Malformed as problem:
            raise _Wrong(expected, problem.message) from None
    names = [c.name.lower() for c in columns]
    twice = next((c.name for c in columns if names.count(c.name.lower()) > 1), None)
    if twice is not None:
        raise _Wrong(expected, f"`{twice}` is there twice")
    return tuple(columns)


def _to_options(value: Value) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _Wrong("a mapping", "write {key: value}")
    options = {}
    for name, text in _flatten(value):
        if (written := format_option(text)) is None:
            raise _Wrong("names with texts, numbers or true/false")
        options[name] = written
    return options


def _flatten(value: Mapping[str, Value]) -> list[tuple[str, Value]]:
    nowhere = At("")
    entries = {name: _to_entry(item, nowhere) for name, item in value.items()}
    return [(name, entry.value) for name, entry in iter_dotted(entries)]


def _to_entry(value: Value, at: At) -> Entry:
    if isinstance(value, dict):
        return Entry({name: _to_entry(item, at) for name, item in value.items()}, at, at)
    return Entry(value, at, at)


def _to_mapping(value: Value) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise _Wrong("a mapping", "write {key: value}")
    return dict(value)


def read_settings(entries: Mapping[str, Entry], where: str, errors: Errors) -> dict[str, Setting]:
    """Settings written in a configuration file, by canonical key, checked; wrong ones are reported and left out."""
    settings: dict[str, Setting] = {}
    for word, entry in entries.items():
        key = find_key(word)
        if key is None:
            errors.add(build_unknown_key(word, where, WORDS, entry.key_at))
            continue
        if key.name in settings:
            first = settings[key.name].at
            errors.add(DuplicateKey(f"`{word}` sets `{key.name}` again; it is also at {first}", at=entry.key_at))
            continue
        setting = normalize_setting(key, Setting(to_plain_value(entry), entry.at), errors)
        if setting is not None:
            settings[key.name] = setting
            if word.lower() == "incremental":
                settings.setdefault("kind", Setting("incremental", entry.at))
    return settings


@lru_cache(maxsize=1024)
def _compile_glob(glob: str) -> re.Pattern[str]:
    pieces = []
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|.", glob.removeprefix("./").rstrip("/")):
        match part:
            case "**/":
                pieces.append("(?:[^/]+/)*")
            case "**":
                pieces.append(".*")
            case "*":
                pieces.append("[^/]*")
            case "?":
                pieces.append("[^/]")
            case _ if len(part) > 1:
                pieces.append("[" + re.sub(r"^!", "^", part[1:-1]).replace("\\", r"\\") + "]")
            case _:
                pieces.append(re.escape(part))
    # A glob that fits a folder fits all in it: `models/staging` and `models/staging/*` mean what people expect.
    return re.compile("".join(pieces) + "(?:/.*)?")


def matches_glob(glob: str, path: str) -> bool:
    """Whether a glob fits a path relative to the project, or one of the folders above it."""
    return _compile_glob(glob).fullmatch(path) is not None


def merge_settings(path: str, header: Header, config: Config, errors: Errors) -> Mapping[str, Setting]:
    """A model's settings by canonical key: the defaults, what its path adds, and its own header, later ones winning."""
    inherited = dict(config.defaults)
    for defaults in config.path_defaults:
        if matches_glob(defaults.glob, path):
            inherited.update(defaults.settings)
    header_settings = {}
    for name, setting in header.settings.items():
        checked = normalize_setting(KEYS[name], setting, errors)
        if checked is not None:
            header_settings[name] = checked
    settings = inherited | header_settings
    kind = settings.get("kind")
    # A header whose own kind was refused must not be judged by the kind it inherits.
    if "kind" in header.settings and "kind" not in header_settings:
        return settings
    return _filter_by_kind(
        settings, header_settings, str(kind.value) if kind is not None else "table", At(path), errors
    )


_WHAT = {
    "cursor": "the column that says how far it has got",
    "materialization": "the name of a function in materializations/",
}


def _format_names(names: tuple[str, ...]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])


def _filter_by_kind(
    settings: Mapping[str, Setting], header_settings: Mapping[str, Setting], kind: str, at: At, errors: Errors
) -> dict[str, Setting]:
    """The settings that mean something for a kind; those in the model's own header must, inherited ones need not."""
    for name, setting in header_settings.items():
        key = KEYS[name]
        if key.stored_only and kind == "view":
            message = f"a view stores nothing, so `{name}` has no meaning for it"
            errors.add(Contradiction(message, at=setting.at, hint=f"remove `{name}` or make the kind `table`"))
        elif key.kinds and kind not in key.kinds:
            message = f"`{name}` has no meaning for the kind {kind}"
            errors.add(Contradiction(message, at=setting.at, hint=f"it belongs to {_format_names(key.kinds)}"))
    needed = KINDS[kind].needs if kind in KINDS else ""
    if needed and not (needed in settings and settings[needed].value):
        place = settings["kind"].at if "kind" in header_settings else at
        hint = f"add `{needed}` with {_WHAT.get(needed, 'its columns')}"
        errors.add(MissingKey(f"the kind {kind} needs `{needed}`", at=place, hint=hint))
    elif kind == "incremental":
        check_cursor(settings, header_settings, at, errors)
    return {
        name: setting
        for name, setting in settings.items()
        if not (KEYS[name].stored_only and kind == "view") and not (KEYS[name].kinds and kind not in KEYS[name].kinds)
    }
