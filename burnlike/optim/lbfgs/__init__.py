"""L-BFGS, whose steps evaluate the loss several times."""
