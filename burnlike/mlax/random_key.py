"""Keys, which make random numbers a function of values that the program passes around."""

from dataclasses import dataclass

import torch

_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Key:
    """An explicit source of randomness: equal keys give equal numbers, and keys made from one key differ.

    Args:
        seed: any whole number; its low 64 bits count.

    Example:
        >>> key, other = Key(0).split(2)
        >>> torch.rand((), generator=key.generator()) == torch.rand((), generator=key.generator())
        tensor(True)
        >>> key == other
        False
    """

    seed: int

    def split(self, count: int = 2) -> "tuple[Key, ...]":
        """`count` new keys; this one should not be used after that."""
        return tuple(Key(_mix(_mix(self.seed) + 2 * index + 1)) for index in range(count))

    def fold_in(self, number: int) -> "Key":
        """The new key for `number`: of a layer, a step, a rank."""
        return Key(_mix(_mix(self.seed) + 2 * number + 2))

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A generator on `device` that starts at this key."""
        return torch.Generator(device).manual_seed(_mix(self.seed))


def _mix(number: int) -> int:
    """The output function of SplitMix64 (Steele, Lea, Flood 2014)."""
    z = (number + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
