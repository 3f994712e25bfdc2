"""Images in conversations: batches, losses and gradients as transformers has them, and what is refused."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from torch import Tensor
from torch.nn import functional

from burnlike.data.chat import images
from burnlike.data.chat.configs import ChatConfig, PreferencesConfig, PromptsConfig
from burnlike.data.chat.splits import ChatData
from burnlike.data.sources.images import read_image, read_picture
from burnlike.errors import ConfigError, DataError
from burnlike.models import PretrainedConfig
from burnlike.train.tasks.language_model import next_token_loss
from burnlike.train.tasks.token_batches import PackedTask

from .image_models import FAMILIES, image_model_in, images_in, paligemma, picture, shown
from .samples import tokenizer_in, turns, write_lines

CPU = torch.device("cpu")
COUNT = 6
MARK = "<image>"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def data(path: Path | str = "chat.jsonl", **fields: Any) -> Any:
    config = {"path": str(path), "tokenizer": "base", "max_length": 400, "validation_path": str(path), **fields}
    return ChatData(ChatConfig.from_dict(config))


def with_files(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages as transformers reads them: with decoded images."""
    return [
        {
            **it,
            "content": [{**part, "image": Image.open(part["image"])} if "image" in part else part for part in content],
        }
        if isinstance(content := it["content"], list)
        else {**it}
        for it in messages
    ]


def expect_transformers_losses(family: str, build: Any) -> None:
    """Compare the inputs, losses and gradients of all conversations with those of a loop by transformers alone."""
    image_model_in(Path("base"), build)
    chats = data(images_in(Path(), COUNT))
    batch = chats.batcher.batch([chats.train[it] for it in range(len(chats.train))], CPU)

    processor = transformers.AutoProcessor.from_pretrained("base")
    conversations = [with_files(shown(it)) for it in range(COUNT)]
    texts = processor.apply_chat_template(conversations)
    pictures = [
        [
            part["image"]
            for it in messages
            if isinstance(it["content"], list)
            for part in it["content"]
            if "image" in part
        ]
        for messages in conversations
    ]
    options: Any = {"padding": True, "padding_side": "right", "add_special_tokens": False, "return_tensors": "pt"}
    theirs = processor(text=texts, images=pictures, **options)
    assert {*batch} == {*theirs} | {"labels"}, family
    for name, value in theirs.items():
        assert batch[name].equal(value), (family, name)
    labels = labels_of(processor.tokenizer, theirs["input_ids"])
    assert labels.equal(batch["labels"]), family

    losses, gradients = [], []
    for ours in (True, False):
        model = PretrainedConfig(path="base", dtype="float64").init("cpu") if ours else reread()
        inputs = {name: it.double() if it.is_floating_point() else it for name, it in batch.items()}
        loss = next_token_loss(model, inputs).loss if ours else loss_by_hand(model, **inputs)
        loss.backward()
        losses.append(loss.detach())
        gradients.append({name: it.grad for name, it in model.named_parameters() if it.grad is not None})
    torch.testing.assert_close(*losses, rtol=1e-13, atol=0)
    assert {*gradients[0]} == {*gradients[1]}
    assert any("vision" in name or "visual" in name for name in gradients[0]), family
    for name, gradient in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], gradient, rtol=1e-10, atol=1e-14)


def loss_by_hand(model: Any, labels: Tensor, **inputs: Tensor) -> Tensor:
    logits = model(**inputs, use_cache=False).logits
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def reread() -> Any:
    options: Any = {"dtype": torch.float64}
    return transformers.AutoModelForImageTextToText.from_pretrained("base", **options).train()


def labels_of(tokenizer: Any, tokens: Tensor) -> Tensor:
    """The labels by the marks of the template alone: what is behind `assistant` and a new line, up to `<|im_end|>`."""
    begin = tokenizer("<|im_start|>assistant\n", add_special_tokens=False)["input_ids"]
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    labels = torch.full_like(tokens, -100)
    for row, listed in enumerate(tokens.tolist()):
        for place in range(len(listed)):
            if listed[place : place + len(begin)] == begin:
                first = place + len(begin)
                last = listed.index(end, first)
                labels[row, first : last + 1] = tokens[row, first : last + 1]
    return labels


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_and_gradients_are_those_of_transformers(family: str) -> None:
    expect_transformers_losses(family, FAMILIES[family])


@pytest.mark.families
def test_families_whose_processors_need_torchvision() -> None:
    command = [sys.executable, "-m", "tests.data.chat.torchvision_image_models"]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.endswith("ok\n")


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_of_images_never_count(family: str) -> None:
    image_model_in(Path("base"), FAMILIES[family])
    chats = data(images_in(Path(), 2), loss="all")
    processor = transformers.AutoProcessor.from_pretrained("base")
    image = processor.tokenizer.convert_tokens_to_ids(getattr(processor.tokenizer, "image_token", MARK))
    for item in (chats.train[it] for it in range(2)):
        of_image = item["input_ids"] == image
        assert of_image.sum() >= 4
        assert (item["labels"][of_image] == -100).all()
        text = chats.template.tokenizer.decode(item["labels"][item["labels"] >= 0])
        assert text.startswith("user\n")  # the first token follows from nothing
        assert "what is" in text
        assert text.endswith("<|im_end|>")


def question(*parts: str | None) -> dict[str, Any]:
    """A message with texts, and an image without a file for each None."""
    content = [{"type": "image"} if it is None else {"type": "text", "text": it} for it in parts]
    return {"role": "user", "content": content}


def by_key(name: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image", name: "0.png", **more}]}


SHAREGPT = [{"from": "human", "value": f"{MARK}a"}, {"from": "gpt", "value": "b"}]
ANSWER = {"role": "assistant", "content": "fine"}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"messages": [question("a", None, "b"), ANSWER], "images": ["0.png"]}, f"a{MARK}\nb"),
        ({"messages": turns(f"a {MARK} b{MARK}", "fine"), "images": ["0.png", "1.png"]}, f"a {MARK}\n b{MARK}\n"),
        ({"messages": turns("a", "fine", "b", "fine"), "images": ["0.png"]}, f"{MARK}\na"),
        ({"conversations": SHAREGPT, "image": "0.png"}, f"{MARK}\na"),
        ({"instruction": f"a{MARK}", "output": "b", "images": ["0.png"]}, f"a{MARK}\n"),
        ({"prompt": "a", "completion": "b", "images": ["0.png"]}, f"{MARK}\na"),
        ({"messages": [by_key("path", text=None), ANSWER]}, f"{MARK}\n"),
        ({"messages": [by_key("url"), ANSWER]}, f"{MARK}\n"),
    ],
)  # fmt: skip
def test_images_stand_where_rows_have_them(row: Mapping[str, Any], text: str) -> None:
    image_model_in(Path("base"), FAMILIES["llava"])
    for number in range(2):
        picture(Path(f"{number}.png"), number)
    pictured = data(write_lines(Path("rows.jsonl"), [row])).train[0]["pictured"]
    assert f"<|im_start|>user\n{text}<|im_end|>" in pictured.text
    assert pictured.images == [Path(f"{number}.png") for number in range(text.count(MARK))]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": turns("a", "b"), "images": ["https://a.b/c.png"]}, "nothing is downloaded"),
        ({"messages": turns("a", "b"), "images": ["data:image/png;base64,AA"]}, "nothing is downloaded"),
        ({"messages": turns("a", "b"), "image": 3}, "expected the path of a file, got int"),
        ({"messages": turns("a", "b"), "images": ["no.png"]}, "there is no file no.png; paths are relative"),
        ({"messages": turns("a", "b"), "images": [{"bytes": "A"}]}, "save the images of the rows as files"),
        ({"messages": [question(None, "a"), ANSWER]}, "images: expected 1 images, .*, got 0"),
        ({"messages": [question(None, "a"), ANSWER], "images": ["0.png", "0.png"]}, "expected 1 images, .*, got 2"),
        ({"messages": [question(None, MARK), ANSWER], "images": ["0.png"]}, "writes 2 marks <image> for 1 images"),
        ({"messages": turns("a", "b"), "images": ["damaged.png"]}, "damaged.png can't be read as an image"),
        ({"messages": turns(f"a {MARK}", "b")}, "writes 1 marks <image> for 0 images"),
        ({"messages": turns("a", "b"), "image": "iVBOR" * 100}, r"there is no file iVBOR\w*;"),
        ({"messages": turns("a", "b"), "image": "../0.png"}, r"within the folder of the data, \., got '\.\./0\.png'"),
        ({"messages": turns("a", "b"), "image": "/etc/0.png"}, "within the folder of the data, .*'/etc/0.png'"),
    ],
)  # fmt: skip
def test_what_is_no_image_is_refused(row: Mapping[str, Any], message: str) -> None:
    image_model_in(Path("base"), FAMILIES["llava"])
    picture(Path("0.png"), 0)
    Path("damaged.png").write_bytes(b"\x89PNG\r\n")
    chats = data(write_lines(Path("rows.jsonl"), [row, {"messages": turns("a", "b")}]))
    assert len(chats.train.unreadable) == 2  # of the training, and of the validation
    with pytest.raises(DataError, match=message):
        raise DataError(chats.train.unreadable[0])


def test_data_and_directories_that_do_not_fit() -> None:
    path = images_in(Path(), 2)
    tokenizer_in(Path("base"))
    with pytest.raises(DataError, match="base has no processor of images"):
        data(path)
    image_model_in(Path("base"), FAMILIES["llava"])
    with pytest.raises(DataError, match=r"chat.jsonl:1: data.packing: expected false where conversations have images"):
        data(path, packing=True)
    with pytest.raises(DataError, match=r"writes 0 marks <image> for 1 images; .* data\.chat_template"):
        raise DataError(data(path, chat_template="chatml").train.unreadable[0])


def test_images_lie_within_the_folder_of_the_data() -> None:
    image_model_in(Path("base"), FAMILIES["llava"])
    for name in ("data/rows", "data/images", "other"):
        Path(name).mkdir(parents=True)
    picture(Path("data/images/0.png"), 0)
    picture(Path("other/0.png"), 1)
    Path("data/link").symlink_to("../other")
    names = ["../images/0.png", "../link/0.png", str(Path("data/images/0.png").absolute()), "../../other/0.png"]
    rows = [{"messages": turns("a", "b"), "image": it} for it in names]
    write_lines(Path("data/rows/train.jsonl"), rows)
    chats = data("data")
    assert len(chats.train) == 3
    assert "within the folder of the data, data, got '../../other/0.png'" in chats.train.unreadable[0]


@pytest.mark.parametrize("column", [{"images": ["0.png"]}, {"image": "cat"}, {"image": 3}], ids=str)
def test_images_of_a_model_of_texts_are_refused(column: dict[str, Any]) -> None:
    tokenizer_in(Path("base"))
    rows = [{"messages": turns("a", "b"), **column}]
    with pytest.raises(DataError, match=rf"in the column '{next(iter(column))}', and data.tokenizer: base has no"):
        data(write_lines(Path("rows.jsonl"), rows))
    for config in (PreferencesConfig, PromptsConfig):
        write_lines(Path("rows.jsonl"), [{"prompt": "a", "chosen": "b", "rejected": "c", **column}] * 3)
        with pytest.raises(DataError, match=rf"in the column '{next(iter(column))}', and .* of texts alone"):
            config.from_dict({"path": "rows.jsonl", "tokenizer": "base"}).init()
    rows = [{"messages": turns("a", "b"), **dict.fromkeys(column)}] * 3
    assert len(data(write_lines(Path("rows.jsonl"), rows)).train) == 3


def test_an_image_is_decoded_once_at_the_beginning_and_once_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    image_model_in(Path("base"), FAMILIES["llava"])
    picture(Path("0.png"), 0)
    decoded: list[Path] = []
    monkeypatch.setattr(images, "read_picture", lambda path: decoded.append(path) or read_picture(path))
    thought = {"role": "assistant", "content": "fine", "reasoning_content": "because"}
    messages = [question(None, "a"), thought, *turns("b"), thought]  # an earlier thought is left out: two rows
    path = write_lines(Path("rows.jsonl"), [{"messages": messages, "image": "0.png"}])
    template = Path("base/chat_template.jinja").read_text()
    shown = "{% if loop.last and message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}"
    Path("thoughts.jinja").write_text(template.replace("{{ message.role }}\n", "{{ message.role }}\n" + shown))
    chats = data(path, chat_template="thoughts.jinja")
    assert len(chats.train) == 2
    assert len(decoded) == 2  # of the training, and of the validation
    chats.batcher.batch([chats.train[0]], CPU)
    assert len(decoded) == 3


def test_a_processor_that_writes_more_is_refused() -> None:
    image_model_in(Path("base"), paligemma)
    with pytest.raises(DataError, match="PaliGemmaProcessor writes more into a text than tokens of images"):
        raise DataError(data(images_in(Path(), 3)).train.unreadable[0])


def test_a_model_of_another_processor_is_refused() -> None:
    image_model_in(Path("base"), FAMILIES["idefics3"])
    image_model_in(Path("other"), FAMILIES["llava"])
    packing = PackedTask()
    packing.take_data(data(images_in(Path(), 2)))
    packing.try_out(PretrainedConfig(path="base").init("cpu"))
    with pytest.raises(ConfigError, match="LlavaForConditionalGeneration takes no pixel_attention_mask"):
        packing.try_out(PretrainedConfig(path="other").init("cpu"))


def test_long_conversations_are_cut_behind_their_images() -> None:
    image_model_in(Path("base"), FAMILIES["idefics3"])
    path = images_in(Path(), 3)
    whole = data(path).train
    assert [len(whole[it]["input_ids"]) for it in range(3)] == [*map(int, whole.lengths)]
    most = int(whole.lengths[0]) - 2
    chats = data(path, max_length=most)
    assert [chats.counts[name] for name in ("read", "truncated", "too long")] == [6, 2, 2]
    items = [chats.train[it] for it in range(len(chats.train))]
    batch = chats.batcher.batch(items, CPU)
    assert {*batch["input_ids"].shape, *batch["attention_mask"].shape} == {2, most}
    assert batch["pixel_values"].shape[0] == 2
    model = PretrainedConfig(path="base").init("cpu")
    assert next_token_loss(model, batch).loss.isfinite()


def test_another_image_is_other_data() -> None:
    image_model_in(Path("base"), FAMILIES["llava"])
    path = images_in(Path(), 3)
    before = data(path).fingerprint
    assert data(path).fingerprint == before
    picture(Path("images/1_1.png"), 99)
    assert data(path).fingerprint != before


def test_images_are_seen_as_transformers_sees_them() -> None:
    image_model_in(Path("base"), FAMILIES["llava"])
    row = {"messages": [question(None, "a"), ANSWER], "images": ["turned.jpg"]}
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(torch.arange(2400).view(20, 40, 3).byte().numpy()).save("turned.jpg", exif=exif)
    chats = data(write_lines(Path("rows.jsonl"), [row]))
    processor = transformers.AutoProcessor.from_pretrained("base")
    theirs = processor(text=[MARK], images=["turned.jpg"], return_tensors="pt")["pixel_values"]
    assert read_image(Path("turned.jpg"), "RGB", None).shape == (3, 40, 20)
    assert chats.batcher.batch([chats.train[0]], CPU)["pixel_values"].equal(theirs)


def test_the_data_shows_where_images_are() -> None:
    image_model_in(Path("base"), FAMILIES["llava"])
    chats = data(images_in(Path(), 2))
    assert "images    3 in 2 conversations" in chats.describe()
    assert "<image> x 4 \nwhat is 0" in chats.examples(1)[0]
    assert "images/0_0.png" in chats.examples(1)[0]


def test_the_template_of_a_processor_alone() -> None:
    image_model_in(Path("base"), FAMILIES["llava"])
    template = Path("base/chat_template.jinja")
    Path("base/chat_template.json").write_text(json.dumps({"chat_template": template.read_text()}))
    template.unlink()
    assert data(images_in(Path(), 2)).train[0]["pictured"].images
