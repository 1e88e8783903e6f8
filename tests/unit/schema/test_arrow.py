import pyarrow as pa
import pytest

from halocline.errors import UnsupportedError
from halocline.schema import Array, Field, Map, Opaque, Primitive, Struct
from halocline.schema.arrow import PRIMITIVES, arrow_schema, arrow_type


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_plain_type_has_its_arrow_type(name):
    assert arrow_type(Primitive(name)) == PRIMITIVES[name]


def test_nested_types_keep_names_and_decimals():
    type = Struct([Field("a", Map(Primitive("string"), Array(Primitive("decimal(10,2)"))))])
    inner = pa.list_(pa.field("element", pa.decimal128(10, 2)))
    assert arrow_type(type) == pa.struct([pa.field("a", pa.map_(pa.string(), inner))])
    assert arrow_schema(type.fields).names == ["a"]


@pytest.mark.parametrize("type", [Primitive("variant"), Primitive("of the future"), Opaque({"type": "udt"})])
def test_a_type_that_arrow_lacks_is_named(type):
    with pytest.raises(UnsupportedError, match=str(type)):
        arrow_type(Struct([Field("a", Array(type))]))
