"""`python -m tests.compat`: predicted against observed, for every release, table and operation.

Options: `--only deltalake@1.6.6` (may be repeated, also a product), `--write-docs` (writes docs/compat.md),
`--disagreements` (prints only those), `--save FILE` (all outcomes as JSON).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from .environments import ROOT, clients, prepare
from .measure import Outcome, measure
from .report import page, summary


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.compat", description=__doc__.splitlines()[0])
    options.add_argument("--only", action="append", default=[], help="a product or product@version; may be repeated")
    options.add_argument("--disagreements", action="store_true", help="print only where they differ")
    options.add_argument("--write-docs", action="store_true", help="write the result into docs/compat.md")
    options.add_argument("--save", type=Path, help="write all outcomes as JSON")
    asked = options.parse_args()
    outcomes: list[Outcome] = []
    missing: dict[str, str] = {}
    for client in clients():
        if asked.only and not {client.product, client.release} & set(asked.only):
            continue
        if problem := prepare(client):
            missing[client.release] = problem
            print(f"{client.release}: cannot be installed here: {problem}", flush=True)
            continue
        started = time.monotonic()
        found = list(measure(client))
        outcomes += found
        for each in found:
            if not each.agrees or not asked.disagreements:
                mark = " " if each.agrees else "!"
                note = f"  {each.note}" if each.note and not each.agrees else ""
                told = f"predicted {each.predicted:<8} observed {each.observed:<8}"
                print(f"{mark} {each.release:<18} {each.operation:<13} {each.case:<44} {told}{note}"[:240])
        agreed = sum(each.agrees for each in found)
        print(f"= {client.release}: {agreed} of {len(found)} agree, {time.monotonic() - started:.0f} s", flush=True)
    print(summary(outcomes, missing))
    if asked.save:
        asked.save.write_text(json.dumps([vars(each) for each in outcomes], indent=1))
    if asked.write_docs:
        (ROOT / "docs").mkdir(exist_ok=True)
        (ROOT / "docs" / "compat.md").write_text(page(outcomes, missing))
    return 0 if outcomes and all(each.agrees for each in outcomes) and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
