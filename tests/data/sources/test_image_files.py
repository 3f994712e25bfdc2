"""Images and masks: every mode of Pillow in every format is scaled by its mode or refused by name; all are upright."""

import os
import struct
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image, ImageOps

from burnlike.data import DataLoader, ImageFolderConfig
from burnlike.data.sources.images import (
    EXTENSIONS,
    FORMATS,
    MASK_FORMATS,
    image_size,
    read_image,
    read_mask,
    read_picture,
)
from burnlike.errors import DataError

HEIGHT, WIDTH = 3, 5
EIGHT = numpy.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 4), dtype=numpy.uint8)
SIXTEEN = numpy.linspace(0, 65535, HEIGHT * WIDTH).astype(numpy.uint16).reshape(HEIGHT, WIDTH)


def image_of(mode: str) -> Any:
    """An image of a mode of Pillow, with different pixels."""
    if mode == "F":
        return Image.fromarray((SIXTEEN / 65535).astype(numpy.float32))
    if mode == "I":
        return Image.fromarray(SIXTEEN.astype(numpy.int32))
    if mode.startswith("I;16"):
        stored = SIXTEEN.astype(">u2" if mode == "I;16B" else "<u2")
        return Image.frombytes(mode, (WIDTH, HEIGHT), stored.tobytes())
    if mode == "1":
        return Image.fromarray(EIGHT[..., 0] > 127)
    if mode in ("P", "PA"):
        image = Image.new(mode, (WIDTH, HEIGHT))
        image.putpalette(numpy.random.default_rng(1).integers(0, 256, 768, dtype=numpy.uint8).tobytes())
        values = EIGHT[..., 0] if mode == "P" else EIGHT[..., :2]
        image.frombytes(values.tobytes())
        return image
    channels = len(Image.new(mode, (1, 1)).getbands())
    return Image.frombytes(mode, (WIDTH, HEIGHT), EIGHT[..., :channels].tobytes())


def expected_grey(image: Any) -> torch.Tensor | None:
    """The pixels of a grey image in 0..1 by NumPy; None for images of colours."""
    if image.mode == "F":
        return torch.from_numpy(numpy.array(image))
    if image.mode == "I" or image.mode.startswith("I;16"):
        return torch.from_numpy(SIXTEEN / 65535).float()
    if image.mode in ("L", "1"):
        return torch.from_numpy(numpy.array(image.convert("L")) / 255).float()
    return None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", Image.MODES)
def test_every_mode_in_every_format_is_right_or_refused_by_name(tmp_path: Path, mode: str) -> None:
    """What Pillow saves of 8 bits and reads again is its own conversion; deep images keep all of their bits."""
    for format in FORMATS:
        path = tmp_path / f"{mode.replace(';', '')}.{format.lower()}"
        try:
            image_of(mode).save(path, format, **({"lossless": True} if format == "WEBP" else {}))
        except (OSError, ValueError, KeyError, struct.error):
            continue  # the format has no such mode
        with Image.open(path) as saved:
            saved.load()
            deep = saved.mode in ("F", "I") or saved.mode.startswith("I;")
            converted = None if deep or saved.mode == "LAB" else numpy.array(saved.convert("RGB"))
            grey = expected_grey(image_of(mode)) if deep else None
        if format == "TIFF" and saved.mode in ("LAB", "I"):  # without a conversion, and without a largest number
            with pytest.raises(DataError, match=f"got TIFF with the mode {saved.mode}, .* save it in another way"):
                read_image(path, "RGB", None)
            continue
        found = read_image(path, "RGB", None)
        shown = torch.from_numpy(numpy.array(read_picture(path))).permute(2, 0, 1)
        torch.testing.assert_close(shown, (found * 255).round().byte(), rtol=0, atol=0)
        assert found.dtype == torch.float32
        if grey is not None:
            torch.testing.assert_close(found, grey.expand(3, -1, -1), rtol=0, atol=1e-7)
            torch.testing.assert_close(read_image(path, "L", None)[0], grey, rtol=0, atol=1e-7)
        else:
            assert converted is not None
            assert torch.equal(found, torch.from_numpy(converted).permute(2, 0, 1).float() / 255)


def test_each_extension_is_of_a_format_that_is_read() -> None:
    Image.init()
    assert {Image.EXTENSION[it] for it in EXTENSIONS} == set(FORMATS)


def tiff(samples: bytes, bits: int, *, photometric: int = 1, sample_format: int = 1, width: int = 4) -> bytes:
    """A TIFF of one row, written by hand (TIFF 6.0, section 4)."""
    fields = [(256, 4, width), (257, 4, 1), (258, 3, bits), (259, 3, 1), (262, 3, photometric), (273, 4, 8)]
    fields += [(277, 3, 1), (278, 4, 1), (279, 4, len(samples)), (339, 3, sample_format)]
    padded = samples + bytes(len(samples) % 2)
    directory = struct.pack("<H", len(fields))
    for tag, kind, value in fields:
        directory += struct.pack("<HHI", tag, kind, 1) + struct.pack(
            "<I" if kind == 4 else "<HH", value, *[0][: kind == 3]
        )
    return b"II*\0" + struct.pack("<I", 8 + len(padded)) + padded + directory + bytes(4)


def test_tiff_of_other_bits_white_as_zero_and_signs(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(tiff(bytes([0x00, 0x00, 0x01, 0x80, 0x0F, 0xFF]), 12))
    torch.testing.assert_close(read_image(path, "L", None)[0, 0], torch.tensor([0, 1, 2048, 4095]) / 4095)
    path.write_bytes(tiff(struct.pack("<4H", 0, 1, 40000, 65535), 16, photometric=0))
    torch.testing.assert_close(read_image(path, "L", None)[0, 0], 1 - torch.tensor([0, 1, 40000, 65535]) / 65535)
    path.write_bytes(tiff(struct.pack("<4f", 0, 0.25, 0.5, 1), 32, photometric=0, sample_format=3))
    torch.testing.assert_close(read_image(path, "L", None)[0, 0], torch.tensor([1, 0.75, 0.5, 0]))
    path.write_bytes(tiff(struct.pack("<4b", 0, 1, -1, 127), 8, sample_format=2))
    for read in (lambda: read_image(path, "L", None), lambda: read_mask(path, None)):
        with pytest.raises(DataError, match=r"a.tif: expected numbers without a sign, got the sample format 2"):
            read()


@pytest.mark.parametrize("values", [(-0.5, 1.0), (0.0, 1.5), (0.0, float("nan")), (0.0, 255.0)])
def test_floating_point_images_outside_of_0_to_1_are_refused(tmp_path: Path, values: tuple[float, float]) -> None:
    Image.fromarray(numpy.array([values], dtype=numpy.float32)).save(tmp_path / "a.tif")
    with pytest.raises(DataError, match=r"a.tif: expected pixels in 0..1, got .* \(the mode F\)"):
        read_image(tmp_path / "a.tif", "L", None)


def test_deep_images_are_resized_in_all_their_bits(tmp_path: Path) -> None:
    Image.fromarray(SIXTEEN).save(tmp_path / "a.png")
    expected = numpy.array(
        Image.fromarray((SIXTEEN / 65535).astype("float32")).resize((3, 2), Image.Resampling.BILINEAR)
    )
    torch.testing.assert_close(read_image(tmp_path / "a.png", "L", (2, 3))[0], torch.from_numpy(expected))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("extension", ["jpg", "png", "tif", "webp"])
def test_images_and_masks_are_shown_upright(tmp_path: Path, orientation: int, extension: str) -> None:
    path = tmp_path / f"a.{extension}"
    exif = Image.Exif()
    exif[0x112] = orientation
    Image.fromarray(EIGHT[..., :3]).save(path, exif=exif, **({"lossless": True} if extension == "webp" else {}))
    with path.open("rb") as file, Image.open(file) as image:  # Pillow 13 maps some that are opened by path wrongly
        upright = numpy.array(ImageOps.exif_transpose(image))
    assert torch.equal(read_image(path, "RGB", None), torch.from_numpy(upright).permute(2, 0, 1).float() / 255)
    assert upright.shape[:2] == ((HEIGHT, WIDTH) if orientation < 5 else (WIDTH, HEIGHT))
    if extension in ("png", "tif"):
        Image.fromarray(EIGHT[..., 0]).save(path, exif=exif)
        with path.open("rb") as file, Image.open(file) as image:
            turned = numpy.array(ImageOps.exif_transpose(image))
        assert torch.equal(read_mask(path, None), torch.from_numpy(turned).long())


def png(samples: list[int], bits: int, kind: int = 0) -> bytes:
    """A PNG of one row, grey or (kind 2) of colours, written by hand."""
    row = "".join(f"{it:0{bits}b}" for it in samples)
    row = row.ljust(-(-len(row) // 8) * 8, "0")
    content = bytes([0, *(int(row[place : place + 8], 2) for place in range(0, len(row), 8))])

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", len(samples) // (3 if kind else 1), 1, bits, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(content)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_masks_of_few_bits_have_their_samples_for_classes(tmp_path: Path, bits: int) -> None:
    samples = [0, 1, 2**bits - 1, 2**bits // 3]
    (tmp_path / "a.png").write_bytes(png(samples, bits))
    assert read_mask(tmp_path / "a.png", None).tolist() == [samples]
    for kind, data in ((b"P5", bytes(samples)), (b"P2", " ".join(map(str, samples)).encode())):
        (tmp_path / "a.pgm").write_bytes(kind + f"\n4 1\n{2**bits - 1}\n".encode() + data)
        assert read_mask(tmp_path / "a.pgm", None).tolist() == [samples]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "I;16"])
def test_masks_of_every_format_keep_classes_or_are_refused(tmp_path: Path, format: str, mode: str) -> None:
    path, classes = tmp_path / f"a.{format.lower()}", numpy.array([[0, 1, 1, 0]], dtype=numpy.uint8)
    image = Image.fromarray(classes * (255 if mode == "1" else 1)).convert(mode if mode != "P" else "L")
    if mode == "P":
        image.putpalette([9, 9, 9, 200, 0, 0])
    try:
        image.save(path, format)
    except (OSError, ValueError):
        return
    if format in MASK_FORMATS and mode in ("1", "L", "P"):
        assert read_mask(path, None).tolist() == classes.tolist()
    else:
        with pytest.raises(DataError, match=r"expected a mask (in PNG, BMP, TIFF, PPM|of one channel of 8 bits)"):
            read_mask(path, None)


def test_colours_of_16_bits_are_read_with_8(tmp_path: Path) -> None:
    samples = [0, 255, 256, 40000, 65279, 65535]
    (tmp_path / "a.png").write_bytes(png(samples, 16, 2))
    expected = torch.tensor(samples).div(256, rounding_mode="floor").view(2, 3).T / 255
    assert torch.equal(read_image(tmp_path / "a.png", "RGB", None)[:, 0], expected)


@pytest.mark.parametrize("transparency", [None, 3, bytes(range(256))])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_palettes_give_their_colours_whatever_is_transparent(tmp_path: Path, mode: str, transparency: Any) -> None:
    image = image_of("P")
    image.save(tmp_path / "a.png", **({} if transparency is None else {"transparency": transparency}))
    expected = torch.from_numpy(numpy.array(image.convert(mode))).view(HEIGHT, WIDTH, -1).permute(2, 0, 1) / 255
    assert torch.equal(read_image(tmp_path / "a.png", mode, None), expected)
    assert torch.equal(read_mask(tmp_path / "a.png", None), torch.from_numpy(EIGHT[..., 0]).long())


def test_files_with_several_images_give_the_first(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (4, 4), (value, 0, 0)) for value in (255, 0)]
    for name, format in (("a.gif", "GIF"), ("a.tif", "TIFF"), ("a.webp", "WEBP"), ("a.png", "PNG")):
        frames[0].save(tmp_path / name, format, save_all=True, append_images=frames[1:])
        found = read_image(tmp_path / name, "RGB", None)
        torch.testing.assert_close(found[:, 0, 0], torch.tensor([1.0, 0.0, 0.0]), rtol=0, atol=0.02)


def folder(root: Path, count: int = 2) -> Path:
    for name in "ab":
        (root / name).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (4, 4), (number, 0, 0)).save(root / name / f"{number}.png")
    return root


def test_decompression_bombs_are_messages_and_can_be_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path, 3)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    for size, name in (((11, 10), "a"), ((300, 300), "b")):  # Pillow warns of the first, and refuses the second
        Image.new("1", size).save(tmp_path / name / "0.png")
        with pytest.raises(DataError, match=rf"{name}/0.png can't be read as an image: .*decompression bomb"):
            read_image(tmp_path / name / "0.png", "L", None)
    data = ImageFolderConfig(path=str(tmp_path)).init()
    loader = DataLoader(data.train.dataset, batch_size=6, on_bad_item="skip")
    assert len(next(iter(loader))[0]) == 4
    assert loader.skipped == 2


@pytest.mark.parametrize(
    "content", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"", b"GIF89a", b"\x89PNG\r\n\x1a\n"]
)
def test_other_formats_of_pillow_and_damaged_files_are_one_message(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    for read in (partial(read_image, mode="RGB", size=None), image_size):
        with pytest.raises(DataError, match=r"a.png can't be read as an image: [^<]*$"):  # no object of Python
            read(tmp_path / "a.png")


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    for name, what in (("pipe", "a pipe"), ("zero", "a device")):
        with pytest.raises(DataError, match=rf"{name}.png can't be read as an image: it is {what}"):
            read_image(tmp_path / f"{name}.png", "RGB", None)


def test_two_masks_or_images_of_one_name_and_masks_of_another_size(tmp_path: Path) -> None:
    images, masks = folder(tmp_path / "images"), tmp_path / "masks"
    for name in "ab":
        (masks / name).mkdir(parents=True)
        for number in range(2):
            Image.new("L", (4, 4)).save(masks / name / f"{number}.png")
    config = ImageFolderConfig(path=str(images), masks=str(masks), validation_fraction=0.5)
    Image.new("L", (4, 2)).save(masks / "a" / "0.png")
    data = config.init()
    with pytest.raises(DataError, match=r"masks/a/0.png: expected a mask of \[4, 4\] pixels, as .* has, got \[2, 4\]"):
        [part[index] for part in (data.train, data.valid) for index in range(2)]
    data = config.replace(size=(8, 8)).init()  # which hides nothing
    with pytest.raises(DataError, match=r"0.png: expected a mask of \[4, 4\] pixels, as .* has, got \[2, 4\]"):
        [part[index] for part in (data.train, data.valid) for index in range(2)]
    Image.new("L", (2, 2)).save(masks / "a" / "0.png")  # of its ratio
    data = config.replace(size=(8, 8)).init()
    assert {part[index][1].shape for part in (data.train, data.valid) for index in range(2)} == {(8, 8)}
    for where in (masks, images):
        Image.new("L", (4, 4)).save(where / "a" / "1.tif")
        with pytest.raises(DataError, match=r"1.png and .*1.tif: expected one file of the name 'a/1', got two"):
            config.init()
        (where / "a" / "1.tif").unlink()


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"data.path: expected a directory, got .*a.png"):
        ImageFolderConfig(path=str(tmp_path / "a.png")).init()
