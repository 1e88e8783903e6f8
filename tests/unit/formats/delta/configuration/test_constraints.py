import pytest
from tests.support.columns import field

from halocline.errors import MalformedError
from halocline.formats.delta.configuration.constraints import check_key, checks, invariant_of
from halocline.formats.delta.configuration.generated import generation_of, with_generation


def test_checks_are_the_properties_with_their_prefix():
    stored = {"delta.constraints.small": "n < 10", "delta.appendOnly": "true"}
    assert checks(stored) == {"small": "n < 10"}
    assert check_key(stored, "SMALL") == "delta.constraints.small"
    assert check_key(stored, "large") is None


def test_an_invariant_is_the_condition_inside_its_json():
    assert invariant_of(field("n")) is None
    noted = field("n", metadata={"delta.invariants": '{"expression": {"expression": "n > 0"}}'})
    assert invariant_of(noted) == "n > 0"


@pytest.mark.parametrize("text", ["{", "{}", '{"expression": {"expression": 7}}', '{"expression": "n > 0"}', 7])
def test_an_invariant_that_cannot_be_read_is_damage(text):
    with pytest.raises(MalformedError, match="invariant of column n"):
        invariant_of(field("n", metadata={"delta.invariants": text}))


def test_a_generated_column_knows_its_expression():
    assert generation_of(field("n")) is None
    assert generation_of(with_generation(field("n"), "m + 1")) == "m + 1"
