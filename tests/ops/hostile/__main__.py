"""`python -m tests.ops.hostile --calls N`: makes N random calls."""

import argparse

from . import assert_right


def main() -> None:
    """Make calls and print how many were taken; ends at the first that is neither refused nor right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the number of the first call")
    arguments = parser.parse_args()
    taken = sum(assert_right(seed) for seed in range(arguments.first, arguments.first + arguments.calls))
    print(f"{arguments.calls} calls of native ops: {taken} taken and right, the others refused")


if __name__ == "__main__":
    main()
