import pytest
from tests.support.columns import field, schema

from halocline.errors import SchemaError
from halocline.formats.delta.actions.action import DomainMetadata
from halocline.formats.delta.configuration.clustering import check_clustering_kept, clustered_by, clustering_columns
from halocline.formats.delta.configuration.column_mapping import mapped_field
from halocline.formats.delta.configuration.schema import Schema

COLUMNS = schema(mapped_field(field("day"), 1, "col-1"), mapped_field(field("city"), 2, "col-2"))


def test_columns_are_stored_by_physical_names_and_shown_by_logical_ones():
    domain = clustered_by(COLUMNS, [("day",), ("city",)])
    assert "col-1" in domain.configuration
    assert clustering_columns(domain, Schema.of(COLUMNS, "name")) == ["day", "city"]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"clusteringColumns": 7}', '{"clusteringColumns": [[]]}'])
def test_a_domain_that_says_nothing_is_no_clustering(text):
    assert clustering_columns(DomainMetadata("delta.clustering", text), Schema.of(COLUMNS)) == []
    assert clustering_columns(None, Schema.of(COLUMNS)) == []


def test_plain_names_are_understood():
    domain = DomainMetadata("delta.clustering", '{"clusteringColumns": ["day"]}')
    assert clustering_columns(domain, Schema.of(COLUMNS)) == ["day"]


def test_a_clustering_column_cannot_go():
    domain = clustered_by(COLUMNS, [("day",), ("city",)])
    check_clustering_kept(COLUMNS, domain, "lake/orders")
    check_clustering_kept(schema("other"), None, "lake/orders")
    with pytest.raises(SchemaError, match="clustered by a column"):
        check_clustering_kept(COLUMNS.with_fields(COLUMNS.fields[:1]), domain, "lake/orders")
