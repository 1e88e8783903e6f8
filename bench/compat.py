"""Promise: a million verdicts over a mixed fleet in a few seconds on one core, and an import that nobody notices.

1,000 distinct releases against 1,000 distinct protocols, every pair asked once. The peer is the same rule worked out
anew for every pair, straight from the facts, which is what one writes first. Import times are the best of several
fresh processes, next to `import pyarrow` in the same run. Verdicts are counted in processor time, so that other work on
the machine does not decide.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from collections import Counter

from halocline.compat.answer import Answer
from halocline.compat.features import FeatureKind, features
from halocline.compat.knowledge import Knowledge
from halocline.compat.product import ANY, is_number
from halocline.compat.protocol import Protocol
from halocline.compat.release import Release
from halocline.compat.verdict import can
from halocline.versions import Version

SECONDS = 4.0
IMPORT_MS = 150.0


def fleet(count: int) -> list[Release]:
    """Distinct releases of every product that knows Delta tables, vendor builds and all."""
    products = [each for each in Knowledge.load().products.values() if "delta" in each.formats]
    found: dict[Release, None] = {}
    for build in itertools.count():
        for product in products:
            for bound in product.boundaries("delta", "read") + product.boundaries("delta", "write"):
                text = str(bound) if build == 0 else f"{bound}-amzn-{build}"
                found[Release(product.name, Version.parse(text))] = None
                if len(found) == count:
                    return list(found)


def tables(count: int, seed: int = 7) -> list[Protocol]:
    """Distinct protocols: a few features each, written with the lowest numbers."""
    chance = random.Random(seed)
    names = [record.name for record in features("delta").values() if record.kind is not FeatureKind.UNKNOWN]
    found = {
        Protocol.delta(reader, writer): None for reader, writer in ((1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6))
    }
    while len(found) < count:
        found[Protocol.of("delta", chance.sample(names, chance.randint(1, 5)))] = None
    return list(found)[:count]


def naive(release: Release, protocol: Protocol, operation: str) -> Answer:
    """The rule without anything worked out beforehand: every fact looked at for every token."""
    product = Knowledge.load().product(release.product)
    if not product.knows(release.version):
        return Answer.UNKNOWN
    required = protocol.requires(operation)
    answers = []
    for token in required:
        answer = product.unlisted
        for fact in sorted(product.facts, key=lambda fact: fact.conditional):
            named = token in fact.tokens or (ANY in fact.tokens and not is_number(token))
            if named and operation in fact.operations and release.version in fact.spans and fact.holds(True, required):
                answer = fact.answer
        answers.append(answer)
    return Answer.REFUSED if Answer.REFUSED in answers else Answer.loudest(answers)


def import_ms(statement: str, times: int = 7) -> float:
    """Milliseconds for a statement in a fresh process, the best of several."""
    code = f"import time; t = time.perf_counter(); {statement}; print((time.perf_counter() - t) * 1000)"
    runs = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(times)
    )
    return min(float(run.stdout) for run in runs)


def main() -> int:
    releases, protocols = fleet(1000), tables(1000)
    started = time.process_time()
    answers = Counter(can(release, protocol, "write").answer for release in releases for protocol in protocols)
    seconds = time.process_time() - started
    total = answers.total()

    started = time.process_time()
    again = sum(can(release, protocol, "write").ok for release in releases for protocol in protocols)
    warm = time.process_time() - started

    pairs = random.Random(1).sample(list(itertools.product(releases, protocols)), 2000)
    started = time.process_time()
    for release, protocol in pairs:
        naive(release, protocol, "write")
    slow = (time.process_time() - started) / len(pairs)

    told = ", ".join(f"{count:,} {answer}" for answer, count in answers.most_common())
    print(f"{total:,} verdicts ({len(releases):,} releases x {len(protocols):,} protocols, write): {told}")
    print(f"  first time {seconds:.2f} s ({seconds / total * 1e6:.2f} µs each), again {warm:.2f} s, {again:,} ok")
    print(f"  naive evaluation {slow * 1e6:.0f} µs each: {slow / (seconds / total):.0f} times slower")
    ours, arrow = import_ms("import halocline"), import_ms("import pyarrow")
    first = import_ms("from halocline.compat.verdict import can; can('deltalake@1.6.6', '(3,7)')")
    print(f"import halocline {ours:.1f} ms, first verdict from nothing {first:.0f} ms, import pyarrow {arrow:.0f} ms")
    print(f"  ratio to pyarrow: {ours / arrow:.2f} (import), {first / arrow:.2f} (first verdict)")
    kept = seconds < SECONDS and ours < IMPORT_MS
    print(f"promise {'kept' if kept else 'broken'}: under {SECONDS:.0f} s and under {IMPORT_MS:.0f} ms")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
