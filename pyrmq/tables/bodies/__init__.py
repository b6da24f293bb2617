"""Bodies as columns: JSON, Avro and Protobuf by a schema, and bodies that do not fit.

`kinds` are the types that a field may have; `json_schema`, `avro_schema` and `protobuf_schema` read
them from files; `json_form`, `avro_form` and `protobuf_form` decode. `decoder` makes columns of a
batch, `plan` is what a job calls, `evolve` changes a table, `dead` keeps what cannot be decoded.
"""
