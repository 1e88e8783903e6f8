"""The JSON that commands print, held against the schemas in `docs/schemas`, and schemas made from what was printed.

A schema says which keys an object has, of which type, and which are always there; others may be added. An object whose
keys are data (features, properties, addresses) is a map, recognised by keys that are no names, or listed in `MAPS`; one
that a table's writer fills as it likes is listed in `FREE`.
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
MAPS = frozenset({"properties", "sides", "ways", "features", "clients", "files", "labels", "releases", "requires"})
FREE = frozenset({"entries", "operationParameters", "operationMetrics", "metrics", "detail"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def command_of() -> str:
    """The command that prints, by the names of its function and module."""
    frame, found = inspect.currentframe(), None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("halocline.cli.") and module.rpartition(".")[2] not in ("main", "output", "shared"):
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
        (SCHEMAS / f"{command}.json").write_text(json.dumps({**head, **schema_of(printed)}, indent=2) + "\n")
