"""Laws that hold for every history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.reached import Reached

from halocline.compat.answer import Answer
from halocline.compat.history import History, Lifetime
from halocline.errors import HaloclineError, MalformedError
from halocline.spans import Span, SpanSet
from halocline.versions import Version

reached = Reached()

numbers = st.integers(min_value=1, max_value=12)
versions = numbers.map(lambda n: Version.of(1, n))


@st.composite
def span_sets(draw, largest=2):
    bounds = sorted(draw(st.sets(numbers, max_size=2 * largest)))
    pairs = zip(bounds[::2], [*bounds[1::2], None], strict=False)
    return SpanSet(Span(Version.of(1, a), Version.of(1, b) if b else None) for a, b in pairs)


@st.composite
def histories(draw, largest=2):
    rows = draw(st.lists(st.tuples(span_sets(largest), span_sets(largest), span_sets(largest)), min_size=1, max_size=4))
    lifetimes = (Lifetime(str(n), provided=p, required=r, optional=o) for n, (p, r, o) in enumerate(rows))
    return History("any", Version.of(2), tuple(lifetimes))


@given(histories(), versions, versions)
def test_check_and_both_ranges_always_agree(history, client, server):
    ok = history.check(client=client, server=server).ok
    assert ok == (server in history.servers_for(client)) == (client in history.clients_for(server))
    required = {row.id for row in history.lifetimes if client in row.required}
    provided = {row.id for row in history.lifetimes if server in row.provided}
    assert set(history.check(client=client, server=server).features) == required - provided


@reached.at_least(below=10)
@given(histories(), versions, versions)
def test_server_below_the_minimum_is_never_ok(history, client, server):
    try:
        least = history.min_server(client)
    except MalformedError:
        assert not history.servers_for(client)
    else:
        for below in (version for version in (server, *history.breakpoints()) if version < least):
            reached("below")
            assert not history.check(client=client, server=below).ok


@reached.at_least(impossible=3, least=10)
@given(histories(largest=1), versions)
def test_minimum_server_of_plain_lifetimes_is_the_seed_rule(history, client):
    needed = [row.provided.spans[0].since for row in history.lifetimes if client in row.required and row.provided]
    if any(client in row.required and not row.provided for row in history.lifetimes):
        reached("impossible")
        with pytest.raises(MalformedError):
            history.min_server(client)
    elif history.servers_for(client):
        reached("least")
        assert history.min_server(client) == max(needed, default=Version.of(0, 0, 0))


@reached.at_least(checked=10)
@given(histories(), versions)
def test_client_at_or_above_the_minimum_requires_nothing_that_was_removed(history, server):
    try:
        least = history.min_client(server)
    except HaloclineError:
        return
    for client in (v for v in (*history.breakpoints(), Version.of(1, 50)) if v >= least):
        reached("checked")
        kinds = {reason.kind for reason in history.check(client=client, server=server).reasons}
        assert "removed" not in kinds, (client, server, least)


@given(histories(), st.text(max_size=12), versions)
def test_any_text_as_a_version_gives_an_answer(history, text, server):
    verdict = history.check(client=text, server=server)
    assert verdict.answer is Answer.UNKNOWN or Version.parse(text).known


@given(histories())
def test_lint_diff_and_changelog_work_on_every_history(history):
    assert all(finding.text for finding in history.lint())
    assert history.diff(history).changes == ()
    assert history.changelog().startswith("# Changes of any")


@reached.at_least(checked=10)
@given(histories())
def test_history_without_findings_about_order_has_a_minimum_everywhere(history):
    if any(finding.rule == "infinite-minimum" for finding in history.lint()):
        return
    for version in history.breakpoints():
        reached("checked")
        assert history.min_server(version).known
