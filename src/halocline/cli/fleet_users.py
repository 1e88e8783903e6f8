"""Who uses a table, as far as the fleet knows that a command was told to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from halocline.errors import needs_extra

if TYPE_CHECKING:
    from halocline.fleet.core.state import TableLevel
    from halocline.fleet.usage.traces import UsageTrace
    from halocline.fleet.usage.users import User
    from halocline.storage.base import Store

FleetOption = Annotated[
    str, typer.Option("--fleet", envvar="HALOCLINE_FLEET", help="Ask this fleet, too, e.g. grpc://127.0.0.1:7470.")
]
_FEW: Final = 5


class FleetUsers:
    """The users of a table that a fleet tells of, and the levels that the table requires; none if no fleet is asked.

    Args:
        fleet: The address; nothing if there is none.
        traces: Those whom the table's own history tells of.
        report: Whether to tell the fleet of them first.
    """

    def __init__(self, fleet: str, store: Store, traces: tuple[UsageTrace, ...] = (), *, report: bool = False) -> None:
        self.fleet = fleet
        self.users: tuple[User, ...] = ()
        self.levels: tuple[TableLevel, ...] = ()
        if not fleet and not traces:
            return
        with needs_extra("the fleet's client", "fleet"):
            from halocline.fleet.answers import TableUsers
            from halocline.fleet.member.admin import AdminClient
            from halocline.fleet.usage.users import known_users
            from halocline.storage.location import Location
        told, place = TableUsers(), Location.parse(store.root).url
        if fleet:
            with AdminClient(fleet) as admin:
                for trace in traces if report else ():
                    admin.observe(trace.event())
                told = admin.table_users(place)
        self.users, self.levels = known_users(told.members, traces, place), told.levels

    @property
    def facts(self) -> dict[str, Any]:
        """The same for programs; nothing if no fleet was asked."""
        return {"usedBy": [each.to_dict() for each in self.users]} if self.fleet else {}

    @property
    def lines(self) -> list[str]:
        """The same for people, in one line; none if no fleet was asked."""
        if not self.fleet:
            return []
        named = [f"{each.name} ({each.release}, {each.provenance})" for each in self.users[:_FEW]]
        more = [f"and {len(self.users) - _FEW:,} more: halocline who"] if len(self.users) > _FEW else []
        levels = "".join(f" · level {each.level} of {each.ladder}" for each in self.levels)
        return [f"used by     {', '.join([*named, *more]) or 'no client that the fleet knows'}{levels}"]
