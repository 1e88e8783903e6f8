"""The wire protocol only grows, and the generated code is what the definition says."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from tests.support import wire_generator

from halocline.fleet.wire.proto.v1 import fleet_pb2

RELEASED = Path(__file__).with_name("wire_v1.txt")


def shape():
    """Every field and call, as it looks on the wire."""
    lines = []
    for name, message in sorted(fleet_pb2.DESCRIPTOR.message_types_by_name.items()):
        for field in message.fields:
            kind = field.message_type.name if field.message_type else field.type
            lines.append(f"{name}.{field.name} = {field.number} {kind}")
    for service in fleet_pb2.DESCRIPTOR.services_by_name.values():
        for call in service.methods:
            streams = f"{'stream ' if call.client_streaming else ''}{call.input_type.name}"
            answer = f"{'stream ' if call.server_streaming else ''}{call.output_type.name}"
            lines.append(f"{service.name}/{call.name} ({streams}) -> {answer}")
    return lines


def test_nothing_that_was_released_is_changed_or_taken_away():
    """New lines are added to the file with the release that brings them; none is ever changed."""
    released = RELEASED.read_text().splitlines()
    missing = [line for line in released if line not in shape()]
    assert missing == [], "old peers would read something else"


def test_everything_new_is_written_down():
    assert shape() == RELEASED.read_text().splitlines()


def test_numbers_are_used_once():
    for name, message in fleet_pb2.DESCRIPTOR.message_types_by_name.items():
        numbers = [field.number for field in message.fields]
        assert len(numbers) == len(set(numbers)), name


def test_the_generated_code_is_up_to_date():
    try:
        installed = version("grpcio-tools"), version("mypy-protobuf")
    except PackageNotFoundError:
        pytest.skip("the generators are not installed: pip install grpcio-tools==1.76.0 mypy-protobuf==3.7.0")
    if installed != (wire_generator.GENERATOR, "3.7.0"):
        pytest.skip(f"other generators are installed: {installed}")
    assert wire_generator.main(["--check"]) == 0
