"""The schema of a table: one set of immutable values for every format.

A *type* is a `Primitive`, a `Struct`, an `Array` or a `Map`; one that this release does not know is kept as it is, a
name as a `Primitive` and anything else as an `Opaque`, so that nothing is lost when a schema is read and written again.
A *field* is one column of a struct, at any depth. Its *metadata* are the notes that formats and engines attach to it;
each key has one home, the module of the noun that it belongs to, and nobody else spells it. A *path* names a field by
its steps from the top; inside arrays and maps the steps are `element`, `key` and `value`. Names compare without regard
to case, as every engine on such tables does.

The schema of a table is a `Struct`. `halocline.schema.visitor` walks it and builds changed ones, `json_edge` and
`arrow` read and write it in other forms. A value that exists nests no deeper than `DEEPEST`, so recursion over it ends;
whether its names are unique and its types are ones that a table may have is for the formats to say.
"""

from halocline.schema.types import Array, DataType, Field, Map, Opaque, Path, Primitive, Struct

__all__ = ["Array", "DataType", "Field", "Map", "Opaque", "Path", "Primitive", "Struct"]
