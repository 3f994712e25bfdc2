"""Configs of data sets that are read from files."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...config import DatasetConfig, Meta
from ...config.bounds import Size
from ...config.file_paths import FilePath

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .splits import Splits, Unlabeled
    from .tokens import TokenFile

Fraction = Annotated[float, Meta(gt=0, lt=1)]
Seed = Annotated[int, Meta(ge=0, lt=2**32)]
Name = Annotated[str, Meta(min_length=1)]
NumberType = Literal["uint8", "uint16", "uint32", "int32", "int64"]


class DigitsConfig(DatasetConfig["Splits"], tag="Digits", builds=".images:digits"):
    """The 1,797 images of handwritten digits that scikit-learn has, 8 x 8 pixels; nothing is downloaded.

    Batches are `(images [n, 1, 8, 8] float32 in 0..1, classes [n])`; with `flat`, images are `[n, 64]`.

    Attributes:
        flat: give rows in place of images.
        validation_fraction: share of the images to validate on.
        test_fraction: share of the images that are kept for the end, as the split `test`; 0 keeps none.
        split_seed: by which they are drawn.

    Raises:
        DataError: by `init`: scikit-learn is not installed.
    """

    flat: bool = False
    validation_fraction: Fraction = 0.15
    test_fraction: Annotated[float, Meta(ge=0, lt=1)] = 0.15
    split_seed: Seed = 0

    @property
    def item_shape(self) -> tuple[int, ...]:
        return (64,) if self.flat else (1, 8, 8)


class ImageFolderConfig(DatasetConfig["Splits"], tag="ImageFolder", builds=".images:image_splits"):
    """A folder with a folder of images for each class; or, with `masks`, images and masks of the same names.

    Batches are `(images [n, channels, height, width] float32 in 0..1, targets)`: classes `[n]`, or of pixels
    `[n, height, width]`. It needs the extra `images`.

    Attributes:
        path: the folder.
        masks: the folder of masks, whose pixels are classes; None for classification. They are PNG, BMP, TIFF or PPM.
        size: height and width that all images are resized to; None leaves them, and all must have one size.
        mode: `RGB` or `L` (grey).
        validation_path: a folder for validation; None takes a part of `path`.
        validation_fraction: how large that part is.
        split_seed: by which it is drawn.

    Raises:
        DataError: by `init`: a folder is missing or has no images, an image has no mask, or two masks have one name.
    """

    path: FilePath
    masks: FilePath | None = None
    size: Annotated[tuple[Size, ...], Meta(min_length=2, max_length=2)] | None = None
    mode: Literal["RGB", "L"] = "RGB"
    validation_path: FilePath | None = None
    validation_fraction: Fraction = 0.1
    split_seed: Seed = 0

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.masks is not None and self.validation_path is not None:
            yield "validation_path", "expected none with `masks`: a part of `path` is taken"

    @property
    def item_shape(self) -> tuple[int, ...] | None:
        """Shape of an image; None where the files say it."""
        return None if self.size is None else (3 if self.mode == "RGB" else 1, *self.size)

    def unlabeled(self, sources: "Sequence[Any]", facts: "Mapping[str, Any]", directory: "Path") -> "Unlabeled":
        from .images import new_images

        return new_images(self, sources)


class TokensConfig(DatasetConfig["TokenFile"], tag="Tokens", builds=".tokens"):
    """Tokens in a file, as other programs write them; the file may be larger than memory.

    Batches are `[n, context_length + 1]` int64.

    Attributes:
        path: `.npy`, or the bare numbers in little endian.
        dtype: of bare numbers.
        validation_path: a file for validation; None takes the end of `path`.
        validation_fraction: how large that part is.
        context_length: tokens that the model sees at once.

    Raises:
        DataError: by `init`: a file is missing, no file of tokens, or too short.
    """

    path: FilePath
    dtype: NumberType = "uint16"
    validation_path: FilePath | None = None
    validation_fraction: Fraction = 0.1
    context_length: Size = 128


class HuggingFaceConfig(DatasetConfig["Splits"], tag="HuggingFace", builds=".hugging_face:hugging_face"):
    """A data set of Hugging Face that `save_to_disk` has written. It needs the extra `datasets`.

    Batches are mappings of the columns, as torch's default collate makes them; with two `columns`, pairs.

    Attributes:
        path: the folder.
        columns: those to take; with two of them, batches are `(first, second)`. None takes all.
        train_split, valid_split: names of the parts, where the folder has several; without a part for validation a
            share of the other is taken.
        validation_fraction: how large that share is.
        split_seed: by which it is drawn.

    Raises:
        DataError: by `init`: the folder is missing or no such data set, or a part or a column is missing.
    """

    path: FilePath
    columns: tuple[Name, ...] = ()
    train_split: Name = "train"
    valid_split: Name = "validation"
    validation_fraction: Fraction = 0.1
    split_seed: Seed = 0


class ComposedConfig(DatasetConfig, tag="Composed"):
    """Several data sets of one kind, one after the other: the parts to train on together, and those to validate on.

    Attributes:
        datasets: their configs.

    Raises:
        DataError: by `init`: one can't be read, or they have other classes or batches.
    """

    datasets: Annotated[tuple[DatasetConfig, ...], Meta(min_length=1)]

    def validate(self) -> Iterable[tuple[str, str]]:
        for field in ("context_length", "vocab_size", "item_shape", "tokenizer", "chat_template", "packing"):
            values = [getattr(it, field, None) for it in self.datasets]
            for place, value in enumerate(values):
                if value != values[0]:
                    yield f"datasets.{place}", f"expected the {field} of the first one, {values[0]}, got {value}"

    def __getattr__(self, name: str) -> Any:
        """The `context_length`, `vocab_size` and `item_shape` that all have in common."""
        if name in ("context_length", "vocab_size", "item_shape"):
            return getattr(self.datasets[0], name)
        raise AttributeError(name)

    def init(self) -> "Splits":
        from .splits import composed

        return composed([it.init() for it in self.datasets])

    def init_with(self, facts: "Mapping[str, Any]", directory: "Path") -> "Splits":
        from .splits import composed

        return composed([it.init_with(facts, directory) for it in self.datasets])

    def unlabeled(self, sources: "Sequence[Any]", facts: "Mapping[str, Any]", directory: "Path") -> Any:
        return self.datasets[0].unlabeled(sources, facts, directory)

    def codec(self, facts: "Mapping[str, Any]", directory: "Path") -> Any:
        return self.datasets[0].codec(facts, directory)
