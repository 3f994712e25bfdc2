"""What older pickles look for in `burnlike.optim.lbfgs`, which was a file."""

from .lbfgs import Lbfgs as Lbfgs
