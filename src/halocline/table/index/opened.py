"""An index table that has been opened: its versions behind the gate, and the transactions that change it."""

from __future__ import annotations

from halocline.compat.protocol import Protocol
from halocline.errors import InputError
from halocline.formats.index.companion.identity import Stale
from halocline.formats.index.history import version_at
from halocline.formats.index.log.actions import IndexAction
from halocline.formats.index.snapshot import IndexSnapshot
from halocline.formats.index.transaction import IndexTransaction
from halocline.table.index.companion import check_if_companion
from halocline.table.opening import Moment, Opening


class IndexOpened(Opening[IndexSnapshot]):
    """An index table that has been found, or a place where one is to be.

    What it has read of the log last is kept: the next search reads what came since, and nothing if nothing did.
    """

    _followed: IndexSnapshot | None = None

    def _loaded(self, operation: str, version: int | None, timestamp_ms: int | None) -> IndexSnapshot:
        if operation == "read" and version is None and timestamp_ms is None:
            known, self._followed = self._followed, None
            self._followed = self._load(operation) if known is None else known.newest()
            return self._followed
        if timestamp_ms is not None:
            if version is not None:
                raise InputError("give a version or a timestamp, not both")
            version = version_at(self.store, timestamp_ms)
        return self._load(operation, version)

    def _load(self, operation: str, version: int | None = None) -> IndexSnapshot:
        return IndexSnapshot.load(self.store, version=version, release=self.release, operation=operation)

    def to_read(
        self,
        operation: str = "read",
        *,
        version: int | None = None,
        timestamp: Moment | None = None,
        stale: str = Stale.REFUSE,
    ) -> IndexSnapshot:
        """A version whose rows are wanted, however they are asked for; every way to the rows of a table comes here.

        A companion whose source has moved on is refused, unless `stale` is `allow` or a version of it is named. One
        whose source is another table by now is always refused.

        Raises:
            ConflictError: The companion shows another version than its source has.
            InputError: It belongs to another table than lies where its source lay, or does not say to which.
        """
        snapshot = self.snapshot(operation, version=version, timestamp=timestamp)
        is_named = version is not None or timestamp is not None
        check_if_companion(snapshot, stale=Stale.ALLOW if is_named else stale)
        return snapshot

    def transaction(
        self,
        snapshot: IndexSnapshot,
        *,
        reads_all: bool = False,
        may_gain: bool = False,
        at_least: Protocol | None = None,
    ) -> IndexTransaction:
        """A transaction on a version.

        Args:
            snapshot: The version.
            reads_all: Whether what is committed depends on every row of it.
            may_gain: Whether what the user asked for is what the table has to gain; else a setting decides.
            at_least: What the table is to require from here on, because the user asked for that.
        """
        return IndexTransaction(
            snapshot,
            reads_all=reads_all,
            auto_upgrade=may_gain or self.settings.auto_upgrade,
            at_least=at_least,
            permit=self.check_lease,
        )

    def commit(self, transaction: IndexTransaction, actions: list[IndexAction], operation: str, **said: object) -> int:
        """Commits what a transaction has prepared, once everybody who must be asked has agreed.

        Raises:
            IncompatibleError: The table would require more of others, and may not, or somebody known would break.
            ConflictError: Somebody else's commit contradicts this one, or the lease of the fleet has run out.
        """
        before = transaction.snapshot
        assert before is not None, "tables are created elsewhere"
        after = transaction.terms_after(actions)
        if after.protocol != before.protocol:
            self.approve(before.terms, after)
        return transaction.commit(actions, operation, **said)
