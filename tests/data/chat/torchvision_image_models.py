"""Models of images whose processors need torchvision, beside transformers' own losses: `python -m` this module.

A process of its own, since a program in which torchvision can be imported is another one to transformers.
"""

import os
import tempfile

from tests.interop.families.sweep import load

if __name__ == "__main__":
    load()
    from tests.data.chat.image_models import TORCHVISION
    from tests.data.chat.test_images import expect_transformers_losses

    for family, build in TORCHVISION.items():
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            expect_transformers_losses(family, build)
    print("ok")
