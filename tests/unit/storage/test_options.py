"""The options of stores: those of every service are known, and nothing else is passed on."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from halocline.errors import InputError
from halocline.storage import open_store
from halocline.storage.options import KNOWN, SERVICES, checked

obstore_store = pytest.importorskip("obstore.store")
CONFIGURATIONS = {"s3": ("_aws.pyi", "S3Config"), "gs": ("_gcs.pyi", "GCSConfig"), "az": ("_azure.pyi", "AzureConfig")}
CASES = [(service, name) for service in SERVICES for name in sorted(SERVICES[service])]
VALUES = ("true", "sha256", "etag", "{}", "a")


def accepted(service: str, name: str) -> bool:
    """Whether the client library knows a name, whatever it thinks of the values."""
    said = []
    for value in VALUES:
        try:
            obstore_store.from_url(f"{service}://bucket", config={name: value})
        except Exception as error:
            said.append(str(error))
    return not any("onfiguration key" in each for each in said)


@pytest.mark.parametrize("service", SERVICES)
def test_what_the_client_library_declares_is_known(service):
    file, name = CONFIGURATIONS[service]
    tree = ast.parse((Path(obstore_store.__file__).parent / "_store" / file).read_text())
    (found,) = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef) and each.name == name]
    declared = {each.target.id for each in found.body if isinstance(each, ast.AnnAssign)}
    assert declared, "the client library declares its options elsewhere"
    assert {name for name in declared - KNOWN if accepted(service, name)} == set()


@pytest.mark.parametrize(
    ("service", "name"), [(service, name) for service in SERVICES for name in sorted(SERVICES[service])]
)
def test_what_is_known_is_known_to_the_client_library(service, name):
    assert accepted(service, name)


@pytest.mark.parametrize("place", ["lake/orders", "memory://x/orders", "s3://bucket/orders"])
def test_an_unknown_option_is_refused_everywhere_with_the_nearest_name(place):
    with pytest.raises(InputError, match="no option aws_regoin") as refused:
        open_store(place, {"aws_regoin": "eu-central-1"})
    assert refused.value.sides["nearest"] == "aws_region"


def test_options_of_another_service_do_no_harm():
    assert open_store("lake/orders", {"AWS_REGION": "eu-central-1", "account_key": "x"}).root.endswith("lake/orders")


def test_names_are_known_without_regard_to_case():
    assert checked({"AWS_ACCESS_KEY_ID": "x"}) == {"aws_access_key_id": "x"}
