"""The JSON that commands print, held against the schemas in `docs/schemas`, and schemas made from what was printed.

A schema says which keys an object has, of which type, and which are always there; others may be added. An object whose
keys are data (features, properties, addresses) is a map, recognised by keys that are no names, or listed in `MAPS`; one
that a table's writer fills as it likes is listed in `FREE`. Where the results of a command differ by what it is asked
for, there is an alternative for each of these `FORMS`. A key that is not always there is listed in `OPTIONAL`, with the
reason.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import typer

from halocline.cli.commands import COMMANDS

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
MAPS = frozenset(
    {"properties", "sides", "ways", "features", "clients", "files", "labels", "releases", "requires"}
    | {"after", "supported", "views"}
)
FREE = frozenset({"entries", "operationParameters", "operationMetrics", "metrics", "detail"})
FORMS: dict[str, tuple[str, ...]] = {
    "features": ("levels", "name"),
    "fleet-raise-level": ("epoch",),
    "history-show": ("version",),
    "inspect": ("tableVersion", "hasProtocol"),
    "lint": ("fixed",),
    "matrix": ("features", "releases", "verdicts"),
    "plan": ("id",),
}
"""The keys that tell the forms of a command's result apart, by being there or not."""

OPTIONAL: dict[str, tuple[str, ...]] = {
    "what a table already is cannot break": ("check.clients[].*.breaks",),
    "a reason that was computed has no source": (
        "check.clients[].*.reasons[].source",
        "matrix.releases[].*.reasons[].source",
        "matrix.verdicts[].reasons[].source",
    ),
    "only a wrong answer says what is wrong": ("matrix.features[].*.*[].what",),
    "what is empty in the record of a feature is left out": (
        *("features.addedByMetadata", "features.aliases", "features.drop", "features.enabledBy", "features.legacy"),
        *("features.modes", "features.note", "features.requires", "features.upgradesExisting"),
    ),
    "a fleet was asked": ("inspect.usedBy",),
    "the slices of the table can be counted": ("inspect.pending",),
    "each type has keys of its own": tuple(
        f"inspect.schema.fields[].type.{key}" for key in ("containsNull", "elementType", "fields")
    ),
    "formats differ in what they say about a finding": ("lint.findings[].byHand", "lint.findings[].unsafe"),
    "relevance was asked for": ("search.scores",),
}
"""The keys that are not always there, by the reason."""

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_TEXT_OR_NULL = {"type": ["null", "string"]}
_NUMBER_OR_NULL = {"type": ["integer", "null"]}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_TABLE_LEVEL = _object(table=_TEXT, ladder=_TEXT, level=_NUMBER, sinceMs=_NUMBER)
_REQUIREMENT = _object(ladder=_TEXT, level=_NUMBER)
_HOLD = _object(ladder=_TEXT, name=_TEXT, level=_NUMBER, untilMs=_NUMBER, reason=_TEXT, actor=_TEXT)
_TOGETHER = {"anyOf": [{"type": "null"}, _object(upgrade=_TEXT, drop={"type": "array", "items": _TEXT})]}
UNPRINTED: dict[str, Any] = {
    "check.clients[].*.fix.together": _TOGETHER,
    "fleet-describe.ladders[].downgrade": {
        "anyOf": [
            {"type": "null"},
            _object(
                target=_NUMBER,
                phase=_TEXT,
                free={"type": "boolean"},
                pastReturn={"type": "boolean"},
                startedMs=_NUMBER,
                actor=_TEXT,
                reason=_TEXT,
                waiting={"type": "array", "items": _TEXT},
            ),
        ]
    },
    "fleet-describe.ladders[].rungs[].features[]": _TEXT,
    "fleet-describe.ladders[].rungs[].requires[]": _REQUIREMENT,
    "fleet-describe.tables[]": _TABLE_LEVEL,
    "fleet-explore[].violations[]": _TEXT,
    "fleet-explore[].trace[]": _TEXT,
    "fleet-members.members[].features[]": _TEXT,
    "fleet-raise-level.tables[]": _TABLE_LEVEL,
    "fleet-raise-level.waiting[]": _TEXT,
    "fleet-show-ladders[].rungs[].requires[]": _REQUIREMENT,
    "fleet-show-ladders[].rungs[].features[]": _TEXT,
    "fleet-status.ladders[].holds[]": _HOLD,
    "fleet-status.ladders[].downgrade.waiting[]": _TEXT,
    "fleet-status.ladders[].rungs[].requires[]": _REQUIREMENT,
    "fleet-status.ladders[].rungs[].features[]": _TEXT,
    "fleet-status.tables[]": _TABLE_LEVEL,
    "fleet-validate.checked[]": _TEXT,
    "fleet-validate.tables[]": _TABLE_LEVEL,
    "history-min-client.notes[]": _TEXT,
    "inspect.usedBy[].lastSeen": _NUMBER_OR_NULL,
    "inspect.usedBy[].leaseLeft": _NUMBER_OR_NULL,
    "lint.unset[]": _TEXT,
    "matrix.releases[].*.fix.older": _TEXT_OR_NULL,
    "matrix.releases[].*.fix.together": _TOGETHER,
    "matrix.verdicts[].fix.older": _TEXT_OR_NULL,
    "matrix.verdicts[].fix.together": _TOGETHER,
    "matrix.verdicts[].fix.upgrade": _TEXT_OR_NULL,
    "matrix.features[].*.*.until": _TEXT_OR_NULL,
    "move.stages[].subjects[]": _TEXT,
    "move.wouldBreak[]": _TEXT,
    "plan.stages[].rising[]": _object(
        table=_TEXT,
        after=_object(protocol=_TEXT, inUse={"anyOf": [{"type": "null"}, {"type": "array", "items": _TEXT}]}),
    ),
    "plan.mended[]": _object(member=_TEXT, table=_TEXT, verdict=_TEXT),
    "plan.leftOut.*": _TEXT,
    "search.rows[]": {"type": "object"},
    "status.by": _TEXT_OR_NULL,
    "survey.target": {
        "anyOf": [
            {"type": "null"},
            {
                "type": "object",
                "additionalProperties": {"anyOf": [_NUMBER_OR_NULL, {"type": "array", "items": _TEXT}]},
            },
        ]
    },
    "survey.tables[].uncounted": _TEXT_OR_NULL,
    "survey.tables[].findings[]": _object(code=_TEXT, text=_TEXT, hurts=_TEXT, safe={"type": "boolean"}),
    "survey.unsearched.*": _TEXT,
    "survey.after": _TEXT_OR_NULL,
    "who.fleet": _TEXT_OR_NULL,
    "who.levels.*": _NUMBER,
    "who.users[].lastSeen": _NUMBER_OR_NULL,
    "who.users[].leaseLeft": _NUMBER_OR_NULL,
}
"""What commands may print and the tests of them do not: where it stands, and its schema."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def command_of() -> str:
    """The command that prints, by the names of its function and module."""
    frame, found = inspect.currentframe(), None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("halocline.cli.") and module.rpartition(".")[2] not in (
            "commands",
            "main",
            "output",
            "shared",
        ):
            found = (module.rpartition(".")[2].partition("_")[0], frame.f_code.co_name)
        frame = frame.f_back
    assert found is not None, "nothing of halocline.cli is running"
    module, function = found
    module = "fleet" if module == "explore" else module
    grouped = module in ("fleet", "history") or function not in ("show", "serve")
    return f"{module}-{function}".replace("_", "-") if grouped else module


def commands() -> dict[str, str]:
    """The commands that have `--output`: the name of their schema, and how they are called."""
    found = {}
    for command, entry in COMMANDS.items():
        loaded = entry.load()
        if isinstance(loaded, typer.Typer):
            found.update(_of_group(loaded, command, command))
        elif "output" in inspect.signature(loaded).parameters:
            found[command] = f"halocline {command}"
    return found


def _of_group(group: typer.Typer, top: str, words: str) -> Iterator[tuple[str, str]]:
    alone = group.registered_callback.callback if group.registered_callback is not None else None
    if alone is not None and "output" in inspect.signature(alone).parameters:
        yield f"{top}-{alone.__name__}".replace("_", "-"), f"halocline {words}"
    for each in group.registered_commands:
        function = each.callback
        if function is not None and "output" in inspect.signature(function).parameters:
            name = each.name or function.__name__.replace("_", "-")
            yield f"{top}-{function.__name__}".replace("_", "-"), f"halocline {words} {name}"
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from _of_group(inner.typer_instance, top, f"{words} {inner.name or inner.typer_instance.info.name}")


def schema_of(samples: list[Any], name: str = "") -> dict[str, Any]:
    """A schema that all of these values meet."""
    if not samples or name in FREE:
        return {}
    kinds: dict[str, list[Any]] = {}
    for each in samples:
        kind = "object" if isinstance(each, dict) else "array" if isinstance(each, list) else _TYPES[type(each)]
        kinds.setdefault(kind, []).append(each)
    if "number" in kinds:
        kinds["number"] += kinds.pop("integer", [])
    found = [_schema(kind, values, name) for kind, values in sorted(kinds.items())]
    if len(found) == 1:
        return found[0]
    if all(set(each) == {"type"} for each in found):
        return {"type": [each["type"] for each in found]}
    return {"anyOf": found}


def _schema(kind: str, values: list[Any], name: str) -> dict[str, Any]:
    if kind == "array":
        return {"type": kind, "items": schema_of([item for value in values for item in value], name)}
    if kind != "object":
        return {"type": kind}
    keys = list(dict.fromkeys(key for value in values for key in value))
    if name in MAPS or not all(_NAME.fullmatch(key) for key in keys) or not keys:
        return {"type": kind, "additionalProperties": schema_of([item for value in values for item in value.values()])}
    return {
        "type": kind,
        "properties": {key: schema_of([value[key] for value in values if key in value], key) for key in keys},
        "required": [key for key in keys if all(key in value for value in values)],
    }


def _schema_of_forms(samples: list[Any], command: str) -> dict[str, Any]:
    """A schema that has an alternative for each form in which the command prints; a key is the same in all of them."""
    keys, forms = FORMS.get(command, ()), dict[tuple[bool, ...], list[Any]]()
    if not keys:
        return schema_of(samples)
    for each in samples:
        forms.setdefault(tuple(isinstance(each, dict) and key in each for key in keys), []).append(each)
    shared = schema_of([each for each in samples if isinstance(each, dict)])["properties"]
    found = [schema_of(forms[form]) for form in sorted(forms)]
    for each in found:
        each.update({"properties": {key: shared[key] for key in each["properties"]}} if "properties" in each else {})
    return {"anyOf": found}


def with_unprinted(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """A schema that also takes what the tests do not print."""
    if path in UNPRINTED:
        return dict(UNPRINTED[path])
    found = dict(schema)
    if "properties" in found:
        found["properties"] = {key: with_unprinted(each, f"{path}.{key}") for key, each in found["properties"].items()}
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = with_unprinted(found["additionalProperties"], f"{path}.*")
    if "items" in found:
        found["items"] = with_unprinted(found["items"], f"{path}[]")
    if "anyOf" in found:
        found["anyOf"] = [with_unprinted(each, path) for each in found["anyOf"]]
    return found


def silent(schema: Any, path: str, name: str = "") -> Iterator[str]:
    """Where a schema says nothing, or that there is never anything: what it takes there is not known."""
    if name in FREE or isinstance(schema, bool):
        return
    if not schema or schema.get("type") == "null":
        yield path
    for key, each in schema.get("properties", {}).items():
        yield from silent(each, f"{path}.{key}", key)
    if name != "metadata":  # of columns, which writers fill as they like
        yield from silent(schema.get("additionalProperties", True), f"{path}.*")
    yield from silent(schema.get("items", True), f"{path}[]", name)
    for each in schema.get("anyOf", ()):
        if each.get("type") != "null":
            yield from silent(each, path, name)


def optional(schema: Any, path: str) -> Iterator[str]:
    """The keys that a schema names and does not require."""
    if isinstance(schema, bool):
        return
    for key, each in schema.get("properties", {}).items():
        if key not in schema.get("required", ()):
            yield f"{path}.{key}"
        yield from optional(each, f"{path}.{key}")
    yield from optional(schema.get("additionalProperties", True), f"{path}.*")
    yield from optional(schema.get("items", True), f"{path}[]")
    for each in schema.get("anyOf", ()):
        yield from optional(each, path)


def read(command: str) -> dict[str, Any] | None:
    """The schema of a command's result; None if there is none."""
    path = SCHEMAS / f"{command}.json"
    return json.loads(path.read_text()) if path.exists() else None


def closed(schema: dict[str, Any] | bool, name: str = "") -> dict[str, Any] | bool:
    """The schema for what is printed today: no key that it does not name, and nothing where it has seen nothing.

    A schema takes keys that it does not name, since later releases may add some. One that has become stale would
    therefore take all that is printed, so the tests hold results against this one.
    """
    if name in FREE or isinstance(schema, bool):
        return schema
    if not schema:
        return False
    found = dict(schema)
    if "properties" in found:
        found["properties"] = {key: closed(each, key) for key, each in found["properties"].items()}
        found["additionalProperties"] = False
    elif "additionalProperties" in found:
        found["additionalProperties"] = closed(found["additionalProperties"])
    if "items" in found:
        found["items"] = closed(found["items"], name)
    if "anyOf" in found:
        found["anyOf"] = [closed(each, name) for each in found["anyOf"]]
    return found


@cache
def validator(command: str) -> jsonschema.Draft202012Validator | None:
    """Holds what a command prints against its closed schema; None if it has no schema."""
    schema = read(command)
    return None if schema is None else jsonschema.Draft202012Validator(closed(schema))


def write(samples: dict[str, list[Any]]) -> None:
    """Writes the schemas of commands from what they printed."""
    SCHEMAS.mkdir(exist_ok=True)
    known = commands()
    for command, printed in samples.items():
        title = f"{known[command]} --output json"
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
        (SCHEMAS / f"{command}.json").write_text(
            json.dumps({**head, **with_unprinted(_schema_of_forms(printed, command), command)}, indent=2) + "\n"
        )
