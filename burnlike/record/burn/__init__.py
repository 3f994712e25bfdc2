"""The files of Burn: the recorders of v0.21 and the burnpack of 0.22. Imports no torch but in the recorders."""
