"""Variables in SQL text, `${name}`, for which Spark puts settings of the session before it reads the text.

Whoever reads text before Spark does, for the tables that a statement names or the files that a condition rules out,
has to put the same in their place. What comes from elsewhere, as `${env:HOME}` does, and what is not set, is left for
Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from halocline.errors import InputError
from halocline.spark.session.session import setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN: Final = "${"
"""What a variable begins with."""
SUBSTITUTED: Final = "spark.sql.variable.substitute"
"""The setting by which Spark does so; it is on unless somebody switches it off."""
_VARIABLE: Final = re.compile(r"\$\{(?:(?:spark|sparkconf|hivevar|hiveconf):)?(?P<name>[^\s}:]+)\}")


def with_variables(spark: SparkSession, text: str) -> str:
    """The text with settings of the session in place of variables.

    Raises:
        InputError: A variable stands for itself.
    """
    if BEGIN not in text or setting(spark, SUBSTITUTED, "true").lower() != "true":
        return text
    return substituted(text, spark.conf.getAll)


def substituted(text: str, values: Mapping[str, str], *, within: tuple[str, ...] = ()) -> str:
    """The text with values in place of variables, also of those in values.

    Example:
        >>> substituted("day = '${my.day}' AND s = '${other}'", {"my.day": "2026-11-01"})
        "day = '2026-11-01' AND s = '${other}'"
    """

    def value(found: re.Match[str]) -> str:
        name = found["name"]
        if name in within:
            raise InputError(
                f"the variable {name} stands for itself",
                sides={"given": found[0], "stands in": " → ".join((*within, name))},
                next_step=f"Give it another value: spark.conf.set({name!r}, …).",
            )
        return substituted(values[name], values, within=(*within, name)) if name in values else found[0]

    return _VARIABLE.sub(value, text)
