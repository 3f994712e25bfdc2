"""Functional transforms of whole modules: gradients, vmap, ensembles."""
