"""Names and layouts of the ready models' weights in other libraries: a table for each."""
