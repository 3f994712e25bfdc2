"""Jobs for photos: a folder for each class, or photos with masks."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from ...data.sources.images import image_size, images_in, read_image, read_mask
from ...errors import DataError
from .texts import OUTPUT, task_key, training_key
from .writing import Draft, Key, Place, number

_MASKS = ("mask", "label", "annotation", "segmentation", "gt", "ground_truth")
"""How names of folders of masks begin."""
_PHOTOS = ("image", "img", "photo", "picture")
"""How names of folders of images begin that are no class where the other folder has masks."""
_TRAINS, _VALIDS = ("train", "training"), ("val", "valid", "validation", "dev", "test")
_SEEN_SIZES, _SEEN_PIXELS, _SEEN_MASKS = 200, 12, 3
_IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
_SMALL, _LARGE = 32, 64
_IMAGES = {_SMALL: 16_000, _LARGE: 5_000}
"""Images that a training reads in about a minute on two cores, by their height."""
_MOST_EPOCHS, _FEWEST_EPOCHS = 40, 5
_IGNORED = 255
_MOST_VALUES = 32
"""Different numbers in a mask; a grey photo has more."""


def with_masks(folder: Path) -> tuple[Path, Path] | None:
    """The folders of images and of masks in a folder that has these two, with the same names; else None.

    Masks are in the folder of such a name, or else in the one alone whose files can be masks.

    Raises:
        DataError: the folders are named as those of images and masks, and an image has no mask.
    """
    folders = _folders(folder)
    if len(folders) != 2:
        return None
    names = [{it.relative_to(each).with_suffix("") for it in images_in(each)} for each in folders]
    masks = [it for it in folders if it.name.lower().startswith(_MASKS)] or [it for it in folders if _has_masks(it)]
    if len(masks) != 1:
        return None
    images = next(it for it in folders if it != masks[0])
    of_images, of_masks = (names[folders.index(it)] for it in (images, masks[0]))
    if of_images and of_images <= of_masks:
        return images, masks[0]
    if masks[0].name.lower().startswith(_MASKS) and images.name.lower().startswith(_PHOTOS):
        raise DataError(
            f"{masks[0]}: expected a mask of the name of each image in {images}, such as"
            f" {min(of_images - of_masks, default='1')}.png, got none"
        )
    return None


def _has_masks(folder: Path) -> bool:
    try:
        values = [read_mask(it, None).unique() for it in images_in(folder)[:_SEEN_MASKS]]
        return all(it.max() < _IGNORED and len(it) <= _MOST_VALUES for it in values)
    except DataError:
        return False


def classes_draft(place: Place, folder: Path) -> Draft:
    """Classes of photos."""
    root, valid = _parts(folder)
    classes = Counter({it.name: len(images_in(it)) for it in _folders(root)})
    images = images_in(root)
    if len(classes) < 2 or not all(classes.values()):
        empty = next((name for name, count in classes.items() if not count), None)
        got = f"{len(classes)}" if empty is None else f"none in {root / empty}"
        raise DataError(
            f"{root}: expected a folder with images for each of two or more classes, such as {root}/cat/1.jpg and"
            f" {root}/dog/1.jpg, got {got}"
        )
    if valid and {it.name for it in _folders(valid)} != {*classes}:
        got = ", ".join(it.name for it in _folders(valid)) or "none"
        raise DataError(f"{valid}: expected the folders of {root}, {', '.join(sorted(classes))}, got {got}")
    photos = Photos(images)
    size, is_grey = photos.size, photos.is_grey
    data = [
        Key("type", "ImageFolder", f"a folder for each class: {', '.join(sorted(classes)[:8])}"),
        Key("path", place.written(root)),
        Key("validation_path", place.written(valid), "the folder of this name") if valid else
        Key("validation_fraction", 0.2, "images that the training does not see, which say how good the model is"),
        *([Key("mode", "L", "the images are grey")] if is_grey else []),
    ]  # fmt: skip
    transforms = [
        Key("-", {"type": "RandomResizedCrop", "size": [size, size], "scale": [0.7, 1.0]}, "in training, at random"),
        *photos.mirrored,
        Key("-", {"type": "Resize", "size": [size, size], "parts": ["valid"]}, "in validation, and for new images"),
        photos.normalized,
    ]
    model = {"type": "ResNet", "num_classes": len(classes), "stem": "Small", "stem_channels": 16,
             "widths": [16, 32, 64], "depths": [1, 1, 1], **({"channels": 1} if is_grey else {})}  # fmt: skip
    task, weighed = task_key(classes)
    metric = "recall" if weighed else "accuracy"
    epochs = max(_FEWEST_EPOCHS, min(_MOST_EPOCHS, _IMAGES[size] // len(images)))
    return Draft(
        f"{number(len(images), 'image')} of {len(classes)} classes",
        [
            Key("data", data),
            Key("transforms", transforms, f"all become {size} x {size}; they are {photos.sizes}"),
            Key("model", model, "a small residual network; {type: ResNet} alone has 18 layers, for 224 x 224"),
            task,
            Key("metrics", [{"type": "Accuracy"}, {"type": "Recall"}], "share of right images; its mean over classes"),
            Key("optimizer", {"type": "AdamW", "weight_decay": 0.05}),
            Key("lr_scheduler", {"type": "CosineAnnealing", "initial_lr": 3e-3},
                "falls to 0 along a cosine, so that the last epochs settle"),
            training_key(epochs, 16 if len(images) < 2000 else 32, metric, *photos.keys),
            *OUTPUT,
        ],
        [("class", "images"), *((name, f"{count:,}") for name, count in sorted(classes.items()))],
        next_steps=("burnlike evaluate {run}", "burnlike predict {run} {data} --out classes.csv"),
    )  # fmt: skip


def masks_draft(place: Place, images_folder: Path, masks_folder: Path) -> Draft:
    """A class for each pixel of photos."""
    images, masks = images_in(images_folder), images_in(masks_folder)
    counts: Counter[int] = Counter()
    for mask in masks[:_SEEN_SIZES]:
        values, pixels = read_mask(mask, None).unique(return_counts=True)
        counts.update(dict(zip(values.tolist(), pixels.tolist(), strict=True)))
    ignored = counts.pop(_IGNORED, 0) if max(counts) == _IGNORED and len(counts) > 2 else 0
    classes = max(counts) + 1
    if len(counts) < 2 or classes > 2 * len(counts) + 8:
        shown = ", ".join(str(count) for count in sorted(counts)[:8])
        raise DataError(
            f"{masks_folder}: expected masks whose pixels are the numbers of classes, 0, 1, 2 and so on, got"
            f" {shown}; {'save 255 as 1' if sorted(counts) == [0, 255] else 'number the classes'}, such as by Pillow:"
            " mask.point(lambda it: it > 0) for two classes"
        )
    photos = Photos(images)
    size, is_grey = photos.size, photos.is_grey
    data = [
        Key("type", "ImageFolder", "images, and masks of the same names"),
        Key("path", place.written(images_folder)),
        Key("masks", place.written(masks_folder), f"pixels are the classes 0 to {classes - 1}"),
        Key("size", [size, size], f"all are resized to it; they are {photos.sizes}"),
        *([Key("mode", "L", "the images are grey")] if is_grey else []),
        Key("validation_fraction", 0.2, "images that the training does not see"),
    ]
    total = counts.total()
    task = [
        Key("type", "Segmentation"),
        *([Key("ignore_index", _IGNORED, "pixels of this number don't count")] if ignored else []),
    ]
    if len(counts) == classes and min(counts.values()) < total / classes / 2:
        fewest, pixels = counts.most_common()[-1]
        task.append(Key("class_weights", "balanced", f"class {fewest} has {pixels / total:.1%} of the pixels"))
    return Draft(
        f"{number(len(images), 'image')} with masks of {classes} classes",
        [
            Key("data", data),
            Key("transforms", [*photos.mirrored, photos.normalized]),
            Key("model", {"type": "UNet", "num_classes": classes, "widths": [16, 32, 64],
                          **({"channels": 1} if is_grey else {})},
                "an encoder and a decoder with connections between equal sizes"),
            Key("task", task),
            Key("metrics", [{"type": "Dice"}], "how much masks overlap that are predicted and that are right"),
            Key("optimizer", {"type": "AdamW", "weight_decay": 0.01}),
            Key("lr_scheduler", {"type": "CosineAnnealing", "initial_lr": 3e-3}, "falls to 0 along a cosine"),
            training_key(max(_FEWEST_EPOCHS, min(_MOST_EPOCHS, _IMAGES[size] // 3 // len(images))), 8, "dice",
                         *photos.keys),
            *OUTPUT,
        ],
        [("class", "pixels"), *((str(name), f"{count / total:.1%}") for name, count in sorted(counts.items()))],
        next_steps=("burnlike evaluate {run}", "burnlike predict {run} {data}/" + images_folder.name + " --out found"),
    )  # fmt: skip


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def _parts(folder: Path) -> tuple[Path, Path | None]:
    """The folders to train and to validate on: those of such names, if a folder has them, else itself and None."""
    folders = {it.name.lower(): it for it in _folders(folder)}
    train = next((folders[it] for it in _TRAINS if it in folders), None)
    valid = next((folders[it] for it in _VALIDS if it in folders), None)
    return (folder, None) if train is None or not _folders(train) else (train, valid)


class Photos:
    """Some of the images of a folder, looked at.

    Attributes:
        size: the height and width that all are brought to.
        sizes: what they have, as text.
        is_grey: True if all that were looked at are.
        unreadable: those that can't be read.
    """

    def __init__(self, images: Sequence[Path]) -> None:
        sizes: list[tuple[int, int]] = []
        self.unreadable: list[Path] = []
        grey: list[bool] = []
        seen = images[:: max(1, len(images) // _SEEN_SIZES)]
        stride = -(-len(seen) // _SEEN_PIXELS)  # of all classes
        for place, path in enumerate(seen):
            try:
                sizes.append(image_size(path))
                pixels = read_image(path, "RGB", (_SMALL, _SMALL)) if place % stride == 0 else None
            except DataError:
                self.unreadable.append(path)
                continue
            if pixels is not None:
                grey.append(torch.equal(pixels[0], pixels[1]) and torch.equal(pixels[0], pixels[2]))
        if not sizes:
            raise DataError(f"{images[0].parent}: expected images, got files that can't be read, such as {images[0]}")
        shorter = sorted(map(min, sizes))
        self.size = _SMALL if shorter[len(shorter) // 2] < _LARGE else _LARGE
        self.sizes = f"{shorter[0]} to {shorter[-1]} pixels along the shorter side"
        if len(set(sizes)) == 1:
            self.sizes = "{} x {}".format(*sizes[0])
        self.is_grey = all(grey)

    @property
    def mirrored(self) -> list[Key]:
        """The transform that mirrors photos; none for grey images, which are often letters or scans."""
        if self.is_grey:
            return []
        return [Key("-", {"type": "RandomHorizontalFlip"}, "take this out where left and right differ")]

    @property
    def normalized(self) -> Key:
        """The transform to values around 0."""
        values = {"mean": [0.5], "std": [0.25]} if self.is_grey else _IMAGENET
        return Key("-", {"type": "Normalize", **values}, "values around 0")

    @property
    def keys(self) -> list[Key]:
        """The keys of `training` for images that can't be read."""
        if not self.unreadable:
            return []
        reason = f"{number(len(self.unreadable), 'image')} can't be read, such as {self.unreadable[0].name}"
        return [Key("on_bad_item", "skip", reason)]
