"""What older pickles look for in `burnlike.module.containers`, which was a file."""

from .sequences import ModuleArray as ModuleArray, ModuleTuple as ModuleTuple, ModuleVec as ModuleVec
