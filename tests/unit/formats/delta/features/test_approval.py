"""Approval: when somebody is asked before a table changes, and what is never asked for."""

from __future__ import annotations

import pytest
from tests.support.columns import field, schema

from halocline.errors import IncompatibleError, InputError
from halocline.formats.delta.configuration import alter
from halocline.formats.delta.configuration.table_configuration import TableConfiguration, new_table
from halocline.formats.delta.features.approval import approve_change, asked_by
from halocline.formats.delta.features.support import with_feature

SWITCH = {"delta.enableDeletionVectors": "true"}


def table(partitioned=False, **properties):
    columns = schema("id", field("day", "date"))
    made = new_table(columns, ("day",) if partitioned else (), properties)
    return TableConfiguration(made.protocol, made.metadata)


def never(before, after):
    raise AssertionError("asked")


def test_nobody_is_asked_if_nothing_more_is_asked_of_others():
    state = table()
    same = approve_change(state, alter.set_properties(state, {"owner": "finance"}), never)
    assert (same.grows, str(same)) == (False, "the protocol stays (1,2)")


def test_who_was_checked_is_told_with_the_reasons():
    state = table()
    after = alter.set_properties(state, SWITCH)
    approval = approve_change(
        state, after, lambda before, after: f"3 members, {sorted(after.in_use)}", asked=frozenset({"deletionVectors"})
    )
    assert str(approval) == (
        "(1,2) becomes (3,7|R: deletionVectors|W: appendOnly,deletionVectors,invariants) "
        "(deletionVectors: delta.enableDeletionVectors=true is set). Checked: 3 members, ['deletionVectors']"
    )


def test_feature_that_is_supported_and_now_switched_on_is_asked_about_with_its_mode():
    state = with_feature(table(partitioned=True), "deletionVectors")
    asked = []
    approve_change(state, alter.set_properties(state, SWITCH), lambda before, after: asked.append((before, after)))
    ((before, after),) = asked
    assert (before.protocol, before.in_use) == (after.protocol, frozenset())
    assert after.in_use == {"deletionVectors", "deletionVectors:partitioned"}


def test_objection_is_not_swallowed():
    def object_to(before, after):
        raise IncompatibleError("etl-nightly would break")

    with pytest.raises(IncompatibleError, match="etl-nightly"):
        approve_change(table(), with_feature(table(), "v2Checkpoint"), object_to, asked=None)
    with pytest.raises(IncompatibleError, match="etl-nightly"):
        approve_change(None, table(), object_to)


def test_feature_that_was_not_asked_for_is_refused_before_others_are_asked():
    with pytest.raises(InputError) as refused:
        approve_change(table(), with_feature(table(), "v2Checkpoint"), never, asked=frozenset({"deletionVectors"}))
    assert refused.value.condition == "FEATURE_NEEDS_MANUAL_ENABLEMENT"


@pytest.mark.parametrize(
    ("values", "features"),
    [
        ({"delta.feature.rowTracking": "supported"}, {"rowTracking"}),
        ({"delta.appendOnly": "true", "owner": "me"}, {"appendOnly"}),
        ({"delta.minWriterVersion": "4"}, None),
    ],
)
def test_features_asked_for_are_named_or_switched_on_and_version_numbers_ask_for_all(values, features):
    assert asked_by(values, table().protocol) == features
