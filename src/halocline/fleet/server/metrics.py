"""What a coordinator tells Prometheus.

State (levels, members, holds) is read when it is scraped, so it cannot drift from the truth; only events are counted.
No label comes from a caller: products are those that the knowledge of this release has, ladders and levels those that
were declared, and whatever else a caller says is called `other`. Which versions run is asked of the fleet itself.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from halocline.compat.knowledge import Knowledge
from halocline.fleet.core.level import effective_policy
from halocline.fleet.core.state import State, known_release

if TYPE_CHECKING:
    from halocline.fleet.server.service import FleetService

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_OTHER: Final = "other"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """Counters of one service, and what can be read from its state."""

    def __init__(self, service: FleetService) -> None:
        self.registry = CollectorRegistry()
        self.handshakes = self._counter("handshakes", "Handshakes by how they ended.", "outcome")
        self.refusals = self._counter("refusals", "What was refused, and why.", "action", "condition")
        self._service = service
        self._denied = self._counter("gate_denied", "Members refused because of a level.", "gate")
        self.beats = self._counter("heartbeats", "Heartbeats answered.")
        self.calls = self._counter("calls", "Calls by how they ended.", "method", "code")
        self.writes = Histogram(
            "halocline_store_write_seconds", "Time of a transaction.", buckets=_BUCKETS, registry=self.registry
        )
        self._incompatible = self._counter(
            "incompatible_sightings", "Callers that did not fit, by what they run.", "client"
        )
        self.registry.register(_State(service))

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"halocline_{name}", text, labels, registry=self.registry)

    def incompatible(self, client: str) -> None:
        """Counts a caller that does not fit, by its product."""
        self._incompatible.labels(_product(client)).inc()

    def denied(self, subject: str) -> None:
        """Counts a member that was refused because of `ladder=level`, or of something else."""
        state, (ladder, _, level) = self._service.coordinator.state, subject.partition("=")
        known = state.fleet.ladders.get(ladder) if state else None
        declared = known is not None and level in map(str, known.levels)
        self._denied.labels(subject if declared else _OTHER).inc()

    def text(self) -> bytes:
        """Everything, in Prometheus' own format."""
        return generate_latest(self.registry)


class _State(Collector):
    def __init__(self, service: FleetService) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        service = self._service
        state = service.coordinator.state
        yield GaugeMetricFamily(
            "halocline_coordinator_active", "Whether this coordinator decides.", value=float(state is not None)
        )
        yield GaugeMetricFamily("halocline_sessions", "Members connected.", value=float(len(service.sessions)))
        yield GaugeMetricFamily(
            "halocline_audit_dropped", "Refusals of strangers that were not told apart.", service.strangers.dropped
        )
        if state is not None:
            yield GaugeMetricFamily("halocline_epoch", "The coordinator's epoch.", value=float(state.epoch))
            yield from _levels(state, service.clock.now())
            yield from _members(state, service.clock.now())

    def describe(self) -> Iterable[Metric]:
        return ()


def _product(release: str) -> str:
    known = known_release(release)
    return known.product if known and known.product in Knowledge.load().products else _OTHER


def _levels(state: State, now: int) -> Iterator[Metric]:
    info = InfoMetricFamily("halocline_fleet_level", "Where the fleet stands.", labels=["ladder"])
    level = GaugeMetricFamily("halocline_feature_finalized_level", "The level of a ladder.", labels=["feature"])
    settled = GaugeMetricFamily("halocline_feature_settled_level", "The settled level.", labels=["feature"])
    held = GaugeMetricFamily("halocline_holds", "Holds in force.", labels=["ladder"])
    for name, ladder_state in sorted(state.fleet.ladder_states.items()):
        policy = effective_policy(state.fleet, name, now)
        phase = ladder_state.downgrade.phase if ladder_state.downgrade else "none"
        info.add_metric([name], {"level": str(ladder_state.level), "policy": policy, "downgrade": phase})
        level.add_metric([name], ladder_state.level)
        settled.add_metric([name], ladder_state.settled)
        held.add_metric([name], sum(1 for hold in state.fleet.holds.values() if hold.ladder == name))
    yield from (info, level, settled, held)


def _members(state: State, now: int) -> Iterator[Metric]:
    count = GaugeMetricFamily("halocline_members", "Live members.", labels=["client", "provenance"])
    lowest = GaugeMetricFamily(
        "halocline_feature_supported_min_level",
        "The lowest level that all of a product's members support.",
        labels=["client", "feature"],
    )
    highest = GaugeMetricFamily(
        "halocline_feature_supported_max_level",
        "The highest level that all of a product's members support.",
        labels=["client", "feature"],
    )
    tally: Tally[tuple[str, str]] = Tally()
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for member in state.fleet.live(now):
        product = _product(member.report.release)
        tally[product, str(member.provenance)] += 1
        for ladder, each in member.report.supported.items():
            if ladder in state.fleet.ladders:
                lo, hi = spans.get((product, ladder), (each.lo, each.hi))
                spans[product, ladder] = (max(lo, each.lo), min(hi, each.hi))
    for labels, number in sorted(tally.items()):
        count.add_metric(list(labels), number)
    for (product, ladder), (lo, hi) in sorted(spans.items()):
        lowest.add_metric([product, ladder], lo)
        highest.add_metric([product, ladder], hi)
    yield from (count, lowest, highest)
