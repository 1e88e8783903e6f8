"""Releases: their text, and finding them in what clients write into commits."""

import pytest

from halocline.compat.release import Release, releases_in, releases_in_commit
from halocline.compat.verdict import can
from halocline.errors import InputError
from halocline.versions import Version


def texts(releases):
    return [str(release) for release in releases]


@pytest.mark.parametrize("text", ["deltalake@1.6.6", "trino@479", "databricks-runtime@13.3.x-scala2.12", "thing@x"])
def test_a_release_is_read_and_written_back(text):
    release = Release.parse(text)
    assert str(release) == text
    assert Release.parse(release) is release


def test_the_product_is_found_whatever_its_case():
    assert Release.parse("Deltalake@1.6.6") == Release("deltalake", Version.parse("1.6.6"))


@pytest.mark.parametrize(
    "text", ["trino", "trino 426", "@426", "a@b@c", "", "trino@", "trino@ ", "trino@@426", "trino @426"]
)
@pytest.mark.parametrize("read", [Release.parse, Release.exact, lambda text: can(text, "(1,1)")])
def test_text_of_another_form_is_refused_with_the_form(text, read):
    with pytest.raises(InputError) as caught:
        read(text)
    assert "product@version" in caught.value.sides["expected"]


@pytest.mark.parametrize(("text", "expected"), [("trino@426 ", "trino@426"), ("trino@ 426", "trino@426")])
def test_spaces_around_a_version_are_not_part_of_it(text, expected):
    assert str(Release.parse(text)) == expected


@pytest.mark.parametrize(("text", "expected"), [("trino@", "trino@unknown"), (" @ ", "unnamed@unknown")])
def test_somebody_who_reports_no_version_is_an_unknown_release_of_what_it_says(text, expected):
    assert str(Release.reported(text)) == expected


def test_releases_are_ordered_by_version_within_a_product():
    listed = [Release.parse(f"deltalake@{version}") for version in ("1.10.0", "1.9.0", "1.10.0rc1")]
    assert texts(sorted(listed)) == ["deltalake@1.9.0", "deltalake@1.10.0rc1", "deltalake@1.10.0"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Apache-Spark/3.5.0 Delta-Lake/3.1.0", ["delta-spark@3.1.0"]),
        ("Apache-Spark/4.0.0-SNAPSHOT Delta-Lake/3.3.0-SNAPSHOT", ["delta-spark@3.3.0-SNAPSHOT"]),
        ("Apache-Spark/3.3.0 Delta-Lake/2.3.0rc1", ["delta-spark@2.3.0rc1"]),
        ("Apache-Spark/3.4.1.5.3-110807746 Delta-Lake/2.4.0.8", ["delta-spark@2.4.0.8"]),
        ("Databricks-Runtime/13.3.x-scala2.12", ["databricks-runtime@13.3.x-scala2.12"]),
        ("Databricks-Runtime/12.2.x-photon-scala2.12", ["databricks-runtime@12.2.x-photon-scala2.12"]),
        ("Databricks-Runtime/dlt:11.3-delta-pipelines-801d604", ["databricks-runtime@11.3-delta-pipelines-801d604"]),
        ("Databricks-Runtime/<unknown>", ["databricks-runtime@<unknown>"]),
        ("delta-rs:py-1.6.6", ["deltalake@1.6.6"]),
        ("delta-rs.py-0.25.5", ["deltalake@0.25.5"]),
        ("delta-rs:0.17.1", ["delta-rs@0.17.1"]),
        ("delta-rs.0.17.1", ["delta-rs@0.17.1"]),
        ("Kernel-3.4.0-SNAPSHOT/test-engine", ["delta-kernel-java@3.4.0-SNAPSHOT"]),
        ("trino-455-datapains-trino-coordinator-6d5864c74f-kdsrf", ["trino@455"]),
        ("halocline/0.1.0 Apache-Spark/4.3.0", ["halocline@0.1.0"]),
        ("pulsar-sink/2.9.1 Delta-Standalone/0.3.0", ["pulsar-sink@2.9.1", "delta-standalone@0.3.0"]),
        ("default engine", []),
        ("", []),
    ],
)
def test_what_clients_write_names_their_release(written, expected):
    assert texts(releases_in(written)) == expected


def test_an_unreadable_version_is_kept_as_an_unknown_one():
    (release,) = releases_in("Databricks-Runtime/<unknown>")
    assert not release.version.known


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        (
            {"engineInfo": "Apache-Spark/3.5.4 Delta-Lake/3.3.0", "clusterId": "1213-060555-65cx1s8v"},
            "delta-spark@3.3.0",
        ),
        ({"clientVersion": "delta-rs.py-0.25.5", "operation": "WRITE"}, "deltalake@0.25.5"),
        ({"engineInfo": "delta-rs:py-1.1.0", "clientVersion": "delta-rs.py-1.1.0"}, "deltalake@1.1.0"),
        ({"engineInfo": "default engine", "kernelVersion": "v0.21.0"}, "delta-kernel-rs@0.21.0"),
        ({"engineInfo": "somebody/1.0", "kernelVersion": "v0.21.0"}, "delta-kernel-rs@0.21.0"),
        ({"clusterId": "trino-479-node", "operation": "WRITE"}, "trino@479"),
    ],
)
def test_a_commit_names_its_writer_in_the_field_its_client_uses(commit, expected):
    assert texts(releases_in_commit(commit)) == [expected]


def test_a_commit_that_names_nobody_has_no_writer():
    assert releases_in_commit({"operation": "WRITE", "clusterId": "0318-151752-abed99", "timestamp": 5}) == ()
