"""From a file to numbers: where rows, documents and texts are read, without ever failing.

`_source` and `_files` open; `_cells` and `_columns` make of any cell a value of its domain;
`_rows`, `_documents` and `_texts` hold what belongs to each unit.
"""
