"""How other libraries name and lay out the weights of the ready models: a table for each."""
