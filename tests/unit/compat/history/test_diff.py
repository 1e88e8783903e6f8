"""Released rows are append-only; the changelog is generated from the rows."""

import pytest

from halocline.compat.history import History
from halocline.compat.history import HistoryChangeKind as ChangeKind

OLD = """
format = 1
name = "mail"
released = "2.0"
flags = { fast = "goes fast" }
constants = [{ since = "1.0", min_client = "0.0.0", min_server = "1.0" }]
[[feature]]
id = "send"
name = "Send"
provided = "1.0"
required = "1.5"
[[feature]]
id = "next"
provided = "3.0"
required = "3.0"
"""


def changes(old, new):
    assert old in OLD
    found = History.parse(OLD.replace(old, new, 1)).diff(History.parse(OLD))
    return [(change.kind, str(change)) for change in found.changes]


@pytest.mark.parametrize(
    ("old", "new", "kind", "text"),
    [
        ('"1.5"', '"1.6"', ChangeKind.REWRITTEN, "send required: [1.5, ∞) became [1.6, ∞)"),
        ('"1.5"', '"3.0"', ChangeKind.REWRITTEN, "send required: [1.5, ∞) became [3.0, ∞)"),
        ('"1.5"', '"[1.5, 2.0)"', ChangeKind.REWRITTEN, "send required: [1.5, ∞) became [1.5, 2.0)"),
        ('"1.5"', '"[1.5, 2.1)"', ChangeKind.EXTENDED, "send required: [1.5, ∞) became [1.5, 2.1)"),
        ('required = "3.0"', 'required = "4.0"', ChangeKind.EXTENDED, "next required: [3.0, ∞) became [4.0, ∞)"),
        (
            'provided = "3.0"',
            'provided = "2.0"',
            ChangeKind.REWRITTEN,
            "next provided: [3.0, ∞) became [2.0, ∞)",
        ),
        ('name = "Send"', 'name = "Sending"', ChangeKind.REUSED, "send name: Send became Sending"),
        (
            'id = "next"',
            'id = "send2"',
            ChangeKind.REMOVED,
            "next row is gone: provided [3.0, ∞), required [3.0, ∞)",
        ),
        (
            'min_server = "1.0"',
            'min_server = "0.9"',
            ChangeKind.REWRITTEN,
            "constants min_server at 1.0: 1.0 became 0.9",
        ),
        (
            'required = "1.5"',
            'required = "1.5"\nwith.fast.required = "1.2"',
            ChangeKind.REWRITTEN,
            "send required with fast: [1.5, ∞) became [1.2, ∞)",
        ),
        (
            'required = "1.5"',
            'required = "1.5"\noptional = "[1.2, 1.5)"',
            ChangeKind.REWRITTEN,
            "send optional: ∅ became [1.2, 1.5)",
        ),
    ],
)
def test_change_of_a_row_is_judged_by_the_last_release(old, new, kind, text):
    assert changes(old, new)[0] == (kind, text)


@pytest.mark.parametrize(
    ("required", "kind"),
    [('"1.0"', ChangeKind.BACK_DATED), ('"2.1"', ChangeKind.ADDED), ("[]", ChangeKind.ADDED)],
)
def test_new_row_is_a_rewrite_only_if_released_clients_are_said_to_require_it(required, kind):
    found = History.parse(OLD + f'[[feature]]\nid = "new"\nprovided = "1.0"\nrequired = {required}').diff(
        History.parse(OLD)
    )
    assert [change.kind for change in found.changes] == [kind]
    assert bool(found.rewrites) is kind.rewrites


def test_same_history_has_no_changes():
    found = History.parse(OLD).diff(History.parse(OLD))
    assert (found.changes, found.rewrites) == ((), ())


def test_later_databend_record_rewrites_released_rows():
    found = History.load("databend-meta").diff(History.load("databend-meta-seed"))
    assert [str(change) for change in found.rewrites] == [
        "expire_in_millis required: [1.2.823, ∞) became [260205.0.0, ∞)",
        "put_sequential required: [1.2.823, ∞) became [260205.0.0, ∞)",
        "constants min_client at 1.2.873: 1.2.676 became 1.2.288",
        "raft_reply/error row: provided [1.2.163, ∞), required [1.2.163, ∞)",
    ]
    appended = [change.feature for change in found.changes if not change.kind.rewrites]
    assert appended == ["transaction/prev_value", "kv_transaction", "kv_transaction/put_match_seq", "kv_get_many"]


def test_changelog_tells_each_release_newest_first():
    text = History.load("databend-meta").changelog()
    heads = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert heads[0] == "260225.0.0"
    assert heads[-1] == "1.2.163 (already there when this history begins)"
    assert len(heads) == 26
    at = text[text.index("## 1.2.755") : text.index("## 1.2.736")]
    assert at.splitlines()[2:] == [
        "- server: removes `transaction/reply_error`",
        "- minimum client from here on: **1.2.676** (was 1.2.287)",
        "",
    ]


def test_changelog_marks_what_is_odd_and_what_is_not_released():
    text = History.load("databend-meta").changelog()
    assert "- yanked, use 1.2.768 instead: withdrawn after release" in text
    assert "- this build reports itself as 1.2.257" in text
    assert "- client: requires `kv_transaction/put_match_seq`, if built with `txn-put-match-seq`" in text
    assert "- server: still has `raft_reply/error`, without using it" in text
    assert "## 3.0 (not released yet)" in History.parse(OLD).changelog()


def test_changelog_of_an_impossible_history_still_tells_the_rows():
    broken = OLD.replace('provided = "1.0"', 'provided = "[1.0, 1.8)"', 1)
    assert "- server: removes `send`" in History.parse(broken).changelog()
