"""The page of predictions and observations says everything that was measured, in lines that can be read."""

from __future__ import annotations

from collections.abc import Sequence

from tests.compat.outcomes import Outcome
from tests.compat.report import measured

from halocline.compat.answer import Answer
from halocline.compat.terms import Terms

VERSIONS = ("0.6.3", "0.6.4", "1.6.6")


def outcome(version: str, case: str, observed: Answer, predicted: Answer | None = None) -> Outcome:
    note = "returns [[None, None]] instead of [[1, 'a']]" if observed is Answer.WRONG else ""
    made = Outcome(f"deltalake@{version}", case, Terms.read("(1,2)"), "read.arrow", observed, note)
    vars(made)["predicted"] = predicted or observed  # as if knowledge said so
    return made


def page(outcomes: Sequence[Outcome]) -> str:
    return "\n\n".join(measured(outcomes))


def test_every_table_stands_in_the_group_of_its_outcomes():
    plain = [outcome(version, f"plain {number}", Answer.OK) for version in VERSIONS for number in range(60)]
    refused = [outcome(version, "new", Answer.OK if version == "1.6.6" else Answer.REFUSED) for version in VERSIONS]
    wrong = [outcome(version, "mapped", Answer.WRONG) for version in VERSIONS]
    text = page([*plain, *refused, *wrong])
    assert max(map(len, text.splitlines())) <= 120
    assert "| 1 | ok | ok | – |\n| 2 | – | ok | 1.6.6 |\n| 3 | **WRONG** | **WRONG** | – |" in text
    assert "- **2** (1): new\n- **3** (1): mapped" in text
    assert "- **1** (60): plain 0; plain 1;" in text
    assert (
        "**deltalake 0.6.3 … 1.6.6**, `read.arrow`: returns [[None, None]] instead of [[1, 'a']]. Tables: mapped."
        in (" ".join(text.split()))
    )


def test_a_prediction_that_is_off_is_named():
    text = page([outcome("1.6.6", "new", Answer.OK, Answer.REFUSED)])
    assert "| deltalake@1.6.6 | read.arrow | new | refused | ok |" in text
    assert "ok ≠ predicted" in text
