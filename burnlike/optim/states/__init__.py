"""The states of an optimizer by parameter id: kept, saved, matched, and translated from torch's."""
