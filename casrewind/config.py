"""Configuration: its keys and their values, for users and for projects.

Four dangers are prevented here. A misspelled key would have no effect: an unknown key is an error that suggests the
nearest known key. A cloned repository could shorten a user's undo: a project's `.casrewind.toml` can only add ignore
rules and lower `max_file_size`. That file arrives with the clone, so an error in it is reported, but never stops a
save.

A cloned repository could decide what hooks push, or what gc deletes by itself: clients give hooks the variables of the
project's own settings, and a hook cannot see who set one. So HOOK_VARIABLES count only if the user's file says so, and
what runs by itself keeps at least what the file keeps.

And 200 KB of TOML could use 23 GB of memory, because tomllib stores every prefix of a dotted key. A file with too many
parts in a key is refused before parsing.
"""

from collections.abc import Mapping

from . import errors
from ._typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .fastjson import JsonObject

PROJECT_FILE = ".casrewind.toml"

# Compiled on first use: without a configuration no hook waits for it.
_SIZE = r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*"
_PART = r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*"
_ISO_AGE = r"p(?:(\d+)w)?(?:(\d+)d)?(?:t(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?)?"
_UNITS = {
    0.001: "ms", 1: "s sec secs second seconds", 60: "m min mins minute minutes", 3600: "h hr hrs hour hours",
    86400: "d day days", 604800: "w week weeks",
}  # fmt: skip
_SECONDS = {word: seconds for seconds, words in _UNITS.items() for word in words.split()}
_MAX_AGE = 1000 * 365 * 86400.0
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_MAX_BYTES = 1 << 62
_QUOTED = 60  # characters of invalid input in a message
_INPUT_LENGTH = 200  # characters of a size or an age: the patterns above need quadratic time
MOST_TOML = 64 << 10
"""Size limit of a configuration file in bytes, for users and projects."""
_LONG_KEY = r"""(?:(?:(?<![\w-])[\w-]++|(?<!\\)"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}"""
"""Matches a key of more than 32 parts, even in strings and comments. Never backtracks: needs linear time."""

_KEYS: dict[str, dict[str, str]] = {
    "retention": {"max_age": "age", "max_count": "count", "max_size": "size", "thin": "flag", "auto_gc": "flag"},
    "capture": {"max_file_size": "size", "default_excludes": "flag", "transcripts": "flag"},
    "restore": {"keep_edits": "flag"},
    "hooks": {"tier": "tier", "budget": "age", "session_line": "flag", "warn_removed": "most", "tell_agent": "flag"},
    "remote": {"from_environment": "flag", "push": "push", "interval": "age", "wait": "age", "keep": "keep"},
}
_FIELDS = {f"remote.{key}": f"remote_{key}" for key in _KEYS["remote"]}
"""{setting: its field in Config}, where that is not its key. The variable has the field's name."""
URL_VARIABLE = "CASREWIND_REMOTE_URL"
"""The variable with the remote that a store without one joins."""
HOOK_VARIABLES = (URL_VARIABLE, "CASREWIND_REMOTE_PUSH", "CASREWIND_REMOTE_INTERVAL")
"""They say what hooks push, and where. They count only with `remote.from_environment`, which has no variable."""
_FROM_ENVIRONMENT = "remote_from_environment"
_WORDS = {"tier": ("minimal", "balanced", "aggressive"), "push": ("off", "turns", "session_end")}
"""{kind of a setting: its values}."""


class Config(NamedTuple):
    """The user's configuration. Sizes in bytes, times in seconds."""

    max_age: float = 30 * 86400.0
    max_count: int = 20_000
    max_size: int = 5 << 30
    thin: bool = True
    auto_gc: bool = True
    max_file_size: int = 1 << 30
    default_excludes: bool = True
    transcripts: bool = True
    keep_edits: bool = False
    tier: str = ""
    budget: float = 20.0
    session_line: bool = True
    warn_removed: int = 20
    tell_agent: bool = True
    remote_from_environment: bool = False
    remote_push: str = "off"
    remote_interval: float = 60.0
    remote_wait: float = 1.0
    remote_keep: float = 0.0


class Project(NamedTuple):
    """A project's own configuration: additional ignore rules, and a size limit in bytes that can only lower the user's.
    `faults`: one sentence for each key without effect. `lost`: why the rules are unknown, "" if they are known."""

    rules: tuple[str, ...] = ()
    max_file_size: int | None = None
    faults: tuple[str, ...] = ()
    lost: str = ""


def _shortened_quote(text: str) -> str:
    """User input, shortened for a one-line message."""
    return repr(text if len(text) <= _QUOTED else text[:_QUOTED] + "...")


def parse_size(text: str, what: str) -> int:
    """Bytes in "5GiB", "300 MB", "4096". Raises UsageError."""
    import re

    match = re.fullmatch(_SIZE, text, re.IGNORECASE | re.ASCII) if len(text) <= _INPUT_LENGTH else None
    if match is None:
        raise errors.UsageError(f"{what}: {_shortened_quote(text)} is not a size", "write it like 5GiB, 300MB or 4096")
    number, power, binary = match.groups()
    result = float(number) * (1024 if binary else 1000) ** _POWERS[power.lower()]
    if result > _MAX_BYTES:
        raise errors.UsageError(f"{what}: {_shortened_quote(text)} is more than any disk holds")
    return int(result)


def parse_age(text: str, what: str) -> float:
    """Seconds in "30d", "12 hours", "1d12h", or in ISO 8601: "P30D", "PT12H". Raises UsageError."""
    import re

    word = text.strip().lower() if len(text) <= _INPUT_LENGTH else ""
    result = None
    iso = re.fullmatch(_ISO_AGE, word, re.ASCII)
    if iso is not None and any(iso.groups()):
        steps = (604800, 86400, 3600, 60, 1)
        result = sum(float(number) * step for number, step in zip(iso.groups(), steps, strict=True) if number)
    elif word and not re.sub(_PART, "", word, flags=re.ASCII):
        parts = re.findall(_PART, word, re.ASCII)
        if all(unit in _SECONDS for _, unit in parts):
            result = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if result is None:
        raise errors.UsageError(f"{what}: {_shortened_quote(text)} is not a length of time", "write it like 30d, 12h, 1d12h or P30D")
    if result > _MAX_AGE:
        raise errors.UsageError(f"{what}: {_shortened_quote(text)} is more than a thousand years")
    return result


def parse_count(text: str, what: str) -> int:
    """A number of 1 or more. Raises UsageError."""
    word = text.strip()
    if not (word.isascii() and word.isdigit()) or int(word[:18]) < 1:
        raise errors.UsageError(f"{what}: {_shortened_quote(text)} is not a number of 1 or more")
    return int(word[:18])


def parse_flag(text: str, what: str) -> bool:
    """True or False in "true", "no", "1". Raises UsageError."""
    word = text.strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0"):
        return False
    raise errors.UsageError(f"{what}: {_shortened_quote(text)} is neither true nor false")


class Setting(NamedTuple):
    """One setting. `name` includes the section, as in `retention.max_age`. `kind`: "age" (seconds), "size" (bytes),
    "count", "most" (0 or more), "flag", "tier", "push" or "keep" (seconds, 0 = forever). `source`: a file, a variable, or "default"."""

    name: str
    kind: str
    value: Any  # its type follows from `kind`
    source: str


def _variable_of(name: str) -> str:
    return "CASREWIND_" + (_FIELDS.get(name) or name.partition(".")[2]).upper()


def variables() -> dict[str, str]:
    """{name of each setting: its variable, "" if only the file sets it}."""
    names = [f"{section}.{key}" for section, known in _KEYS.items() for key in known]
    return {name: "" if _FIELDS.get(name) == _FROM_ENVIRONMENT else _variable_of(name) for name in names}


def value_in_toml(name: str, text: str) -> str:
    """The value that a person gives a setting, in the syntax of the file. Raises UsageError for an unknown setting, and for another
    value than the file may have."""
    from .messages import most_similar

    section, _, key = name.partition(".")
    kind = _KEYS.get(section, {}).get(key)
    if kind is None:
        meant = {form: each for each in variables() for form in (each.partition(".")[2], each)}
        near = meant.get(most_similar(name.replace("-", "_"), meant), "")
        raise errors.UsageError(f"no setting {_shortened_quote(name)}", f"did you mean {near}?" if near else "casrewind config lists them")
    value = _value_or_raise(kind, text, name)
    if kind == "flag":
        return str(value).lower()
    import json

    return str(value) if kind in ("count", "most") else json.dumps(text.strip())


def explain_settings(text: str, origin: str, environ: Mapping[str, str]) -> list[Setting]:
    """Every setting of the user's configuration: the file's text ("" = none), overridden by those `CASREWIND_<KEY>`
    variables that count. Raises UsageError for an invalid setting; `origin` names the file in the error."""
    found: dict[str, tuple[object, str]] = {}
    for section, values in parse_toml(text, origin).items():
        known = _KEYS.get(section)
        if known is None:
            raise _unknown_key_error(section, _KEYS, origin, "section")
        if not isinstance(values, dict):
            raise errors.UsageError(f"{origin}: {section} is a section", f"write [{section}]")
        for key, value in values.items():
            if key not in known:
                raise _unknown_key_error(key, known, f"{origin}, [{section}]", "key")
            found[_FIELDS.get(f"{section}.{key}") or key] = _value_or_raise(known[key], value, f"{origin}, {section}.{key}"), origin
    without = set() if found.get(_FROM_ENVIRONMENT, (False,))[0] else set(HOOK_VARIABLES)
    without.add(f"CASREWIND_{_FROM_ENVIRONMENT.upper()}")
    settings = []
    for section, known in _KEYS.items():
        for key, kind in known.items():
            field = _FIELDS.get(f"{section}.{key}") or key
            variable = _variable_of(f"{section}.{key}")
            given = environ.get(variable)
            if given is not None and variable not in without:
                found[field] = _value_or_raise(kind, given, variable), variable
            settings.append(Setting(f"{section}.{key}", kind, *found.get(field, (getattr(Config(), field), "default"))))
    return settings


def read_user_config(text: str, origin: str, environ: Mapping[str, str], *, by_itself: bool = False) -> Config:
    """The user's configuration. `by_itself`: for a hook, or a gc that no person started: it keeps what the file keeps, and what the
    variables keep. Raises as `explain_settings`."""
    settings = explain_settings(text, origin, environ)
    found = Config(**{_FIELDS.get(setting.name, setting.name.partition(".")[2]): setting.value for setting in settings})
    if not by_itself or all(setting.source != _variable_of(setting.name) for setting in settings if setting.name.startswith("retention.")):
        return found
    own = read_user_config(text, origin, {})
    return found._replace(
        max_age=max(found.max_age, own.max_age), max_count=max(found.max_count, own.max_count), max_size=max(found.max_size, own.max_size),
        thin=found.thin and own.thin, auto_gc=found.auto_gc and own.auto_gc,
    )  # fmt: skip


def read_project(text: str) -> Project:
    """Parse a project's own file: `ignore = [...]` and `[capture] max_file_size`. A valid key counts even if others are
    invalid. Raises UsageError for text that is not TOML or exceeds a limit."""
    faults: list[str] = []
    lost = ""
    rules: tuple[str, ...] = ()
    limit = None
    for key, value in parse_toml(text, "").items():
        if key == "ignore" and isinstance(value, list) and all(isinstance(item, str) for item in value):
            rules = tuple(value)
        elif key == "ignore":
            lost = "'ignore' is not a list of strings"
        elif key == "capture" and isinstance(value, dict):
            limit = _read_size_limit(value, faults)
        else:
            faults.append(f"{_shortened_quote(key)} is not a setting of a project: those are ignore and capture.max_file_size")
    return Project(rules, limit, tuple(faults), lost)


def _read_size_limit(capture: "JsonObject", faults: list[str]) -> int | None:
    """The file size limit in a project's section [capture]; other keys are added to `faults`."""
    limit = None
    for key, value in capture.items():
        if key != "max_file_size":
            faults.append(f"{_shortened_quote('capture.' + key)} is not a setting of a project: of this section only max_file_size is")
            continue
        try:
            limit = _value_or_raise("size", value, "capture.max_file_size")
        except errors.UsageError as error:
            faults.append(str(error))
    return limit


def decode_file(data: bytes, origin: str) -> str:
    """The text of a configuration file of at most MOST_TOML bytes. Raises UsageError, which names the file `origin`."""
    if len(data) > MOST_TOML:
        raise _refused_error(origin, f"more than {MOST_TOML >> 10} KiB cannot be read; make it shorter")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused_error(origin, f"it cannot be read: {error}") from error


def _refused_error(origin: str, why: str) -> errors.UsageError:
    return errors.UsageError(f"{origin}: {why}" if origin else why)


def parse_toml(text: str, origin: str) -> "JsonObject":
    """The values in a configuration file. Raises UsageError, which names the file `origin`."""
    if not text.strip():
        return {}
    import re
    import tomllib

    if re.search(_LONG_KEY, text):
        raise _refused_error(origin, "a key of more than 32 parts cannot be read; make it shorter")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError; a number that is too long, a list that is too deep
        said = str(error)  # may contain the whole of a long key
        raise _refused_error(origin, said if len(said) <= _INPUT_LENGTH else f"{said[:_QUOTED]} ... {said[-_QUOTED:]}") from error


def _value_or_raise(kind: str, value: object, what: str) -> Any:  # its type follows from `kind`
    if isinstance(value, int) and abs(value) > _MAX_BYTES:  # Python refuses to print a number of thousands of digits
        raise errors.UsageError(f"{what}: a number of {value.bit_length()} bits is too large")
    if not isinstance(value, (str, int, float)):
        raise errors.UsageError(f"{what}: a {type(value).__name__} is not allowed here")
    text = str(value) if not isinstance(value, bool) else str(value).lower()
    if kind == "size":
        return parse_size(text, what)
    if kind == "age":
        return parse_age(text, what)
    if kind == "keep":
        return 0.0 if text.strip().lower() == "forever" else _parse_age_above_zero(text, what)
    if kind == "flag":
        return parse_flag(text, what)
    if kind == "count" or (kind == "most" and text.strip() != "0"):
        return parse_count(text, what)
    if kind == "most":
        return 0
    if text not in _WORDS[kind]:
        raise errors.UsageError(f"{what}: {_shortened_quote(text)} is not one of {', '.join(_WORDS[kind])}")
    return text


def _parse_age_above_zero(text: str, what: str) -> float:
    found = parse_age(text, what)
    if not found:
        raise errors.UsageError(f"{what}: {_shortened_quote(text)} would keep nothing", "write it like 90d, or forever")
    return found


def _unknown_key_error(name: str, known: Mapping[str, object], where: str, what: str) -> errors.UsageError:
    import difflib

    near = difflib.get_close_matches(name[:_QUOTED], known, n=1, cutoff=0.0)
    return errors.UsageError(f"{where}: unknown {what} {_shortened_quote(name)}", f"did you mean {near[0]!r}?")
