"""Tiny directories of models of images and text, each with its processor, and conversations about images.

`torchvision` has the families whose processors read videos, too, which needs torchvision.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image

from .samples import tokenizer, turns

_BEGIN = "{% for message in messages %}<|im_start|>{{ message.role }}\n"
_PARTS = (
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}MARK{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
)
_END = "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
VISION: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 8,
}


def _tokenizer(mark: str, *special: str, **named: str) -> Any:
    """The tokenizer of the samples with tokens of images, and a template that writes a mark for each image."""
    made = tokenizer(_BEGIN + _PARTS.replace("MARK", mark) + _END)
    made.add_special_tokens({"additional_special_tokens": [*special]})
    made.pad_token = "</s>"
    if named:
        made = transformers.PreTrainedTokenizerFast(
            tokenizer_object=made.backend_tokenizer,
            extra_special_tokens=named,
            bos_token="<s>",
            eos_token="</s>",
            pad_token="</s>",
            chat_template=made.chat_template,
        )
    return made


def llava() -> tuple[Any, Any]:
    words = _tokenizer("<image>\n", "<image>")
    images = transformers.CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    processor = transformers.LlavaProcessor(
        images, words, patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )
    config_class: Any = transformers.LlavaConfig
    config = config_class(
        text_config=transformers.LlamaConfig(vocab_size=len(words), **TEXT),
        vision_config=transformers.CLIPVisionConfig(**VISION),
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )
    return processor, transformers.LlavaForConditionalGeneration(config)


def idefics3() -> tuple[Any, Any]:
    return _idefics3(transformers.Idefics3ImageProcessorPil, transformers.Idefics3Processor, "Idefics3")


def smolvlm() -> tuple[Any, Any]:
    videos = transformers.SmolVLMVideoProcessor()
    return _idefics3(transformers.SmolVLMImageProcessorPil, transformers.SmolVLMProcessor, "SmolVLM", videos)


def _idefics3(image_class: Any, processor_class: Any, name: str, *more: Any) -> tuple[Any, Any]:
    tags = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    tags += [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    words = _tokenizer("<image>", *tags)
    images = image_class(size={"longest_edge": 32}, max_image_size={"longest_edge": 16})
    processor = processor_class(images, words, *more, image_seq_len=4)
    vision = getattr(transformers, f"{name}VisionConfig")
    config = getattr(transformers, f"{name}Config")(
        text_config=transformers.LlamaConfig(vocab_size=len(words), pad_token_id=1, **TEXT),
        vision_config=vision(**{**VISION, "patch_size": 4}),
        image_token_id=words.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    return processor, getattr(transformers, f"{name}ForConditionalGeneration")(config)


def gemma3() -> tuple[Any, Any]:
    tags = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    words = _tokenizer("<start_of_image>", *tags.values(), **tags)
    images = transformers.Gemma3ImageProcessorPil(size={"height": 16, "width": 16})
    processor = transformers.Gemma3Processor(images, words, image_seq_length=4)
    config_class: Any = transformers.Gemma3Config
    config = config_class(
        text_config=transformers.Gemma3TextConfig(vocab_size=len(words), head_dim=16, **TEXT),
        vision_config=transformers.SiglipVisionConfig(**{**VISION, "patch_size": 4}),
        mm_tokens_per_image=4,
        image_token_id=words.image_token_id,
        boi_token_index=words.boi_token_id,
        eoi_token_index=words.eoi_token_id,
    )
    return processor, transformers.Gemma3ForConditionalGeneration(config)


def paligemma() -> tuple[Any, Any]:
    words = _tokenizer("<image>", "<image>")
    images: Any = transformers.SiglipImageProcessorPil(size={"height": 16, "width": 16})
    images.image_seq_length = 4
    processor = transformers.PaliGemmaProcessor(images, words)
    config = transformers.PaliGemmaConfig(
        text_config=transformers.GemmaConfig(vocab_size=len(words), head_dim=16, **TEXT),
        vision_config=transformers.SiglipVisionConfig(**VISION),
        projection_dim=32,
    )
    config.image_token_id = words.convert_tokens_to_ids("<image>")
    return processor, transformers.PaliGemmaForConditionalGeneration(config)


def _qwen(name: str, processor_name: str, videos: str, **vision: Any) -> tuple[Any, Any]:
    tags = ["<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|video_pad|>"]
    words = _tokenizer("<|vision_start|><|image_pad|><|vision_end|>", *tags)
    size = {"shortest_edge": 64, "longest_edge": 1024}
    images = transformers.Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, size=size)
    movies = getattr(transformers, videos)(patch_size=4, merge_size=2)
    processor = getattr(transformers, processor_name)(images, words, movies)
    numbers = [words.convert_tokens_to_ids(it) for it in tags]
    config_class = getattr(transformers, f"{name}Config")
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    config = config_class(
        text_config={"vocab_size": len(words), **TEXT, "head_dim": 16, "rope_parameters": rope},
        vision_config={"patch_size": 4, "spatial_merge_size": 2, "num_heads": 2, "depth": 2, **vision},
        vision_start_token_id=numbers[0],
        image_token_id=numbers[1],
        vision_end_token_id=numbers[2],
        video_token_id=numbers[3],
    )
    return processor, getattr(transformers, f"{name}ForConditionalGeneration")(config)


def qwen2_vl() -> tuple[Any, Any]:
    return _qwen("Qwen2VL", "Qwen2VLProcessor", "Qwen2VLVideoProcessor", embed_dim=32, hidden_size=32, mlp_ratio=1)


def qwen2_5_vl() -> tuple[Any, Any]:
    sizes: Any = {"hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 32, "window_size": 16}
    return _qwen("Qwen2_5_VL", "Qwen2_5_VLProcessor", "Qwen2VLVideoProcessor", fullatt_block_indexes=[1], **sizes)


def qwen3_vl() -> tuple[Any, Any]:
    sizes: Any = {"hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 32}
    more: Any = {"deepstack_visual_indexes": [0], "num_position_embeddings": 64}
    return _qwen("Qwen3VL", "Qwen3VLProcessor", "Qwen3VLVideoProcessor", **sizes, **more)


FAMILIES: Mapping[str, Callable[[], tuple[Any, Any]]] = {"llava": llava, "idefics3": idefics3, "gemma3": gemma3}
TORCHVISION: Mapping[str, Callable[[], tuple[Any, Any]]] = {
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
    "smolvlm": smolvlm,
}


def image_model_in(directory: Path, family: Callable[[], tuple[Any, Any]]) -> Path:
    """A directory of a tiny model with random weights, which are large enough to matter, and its processor."""
    torch.manual_seed(0)
    processor, model = family()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    processor.chat_template = processor.tokenizer.chat_template
    processor.save_pretrained(directory)
    model.save_pretrained(directory)
    return directory


def picture(path: Path, number: int) -> Path:
    """An image of a size and of colours that depend on a number."""
    width, height = 20 + 6 * (number % 4), 30 - 5 * (number % 3)
    generator = torch.Generator().manual_seed(number)
    pixels = torch.randint(256, (height, width, 3), generator=generator, dtype=torch.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.numpy()).save(path)
    return path


def shown(number: int) -> list[dict[str, Any]]:
    """A conversation about images: of one, of two in two turns, or of none."""
    images = [{"type": "image", "image": f"images/{number}_{place}.png"} for place in range(2)]
    question = {"type": "text", "text": f"what is {number}"}
    first = {"role": "user", "content": [images[0], question]}
    answer = {"role": "assistant", "content": f"it is {number}"}
    if number % 3 == 1:
        return [first, answer, {"role": "user", "content": [question, images[1]]}, {**answer, "content": "sure"}]
    return [first, answer] if number % 3 == 0 else turns(f"what is {number}", f"it is {number}")


def images_in(directory: Path, count: int) -> Path:
    """A file of conversations about images, which lie beside it."""
    rows = []
    for number in range(count):
        for place in range(2):
            picture(directory / "images" / f"{number}_{place}.png", 2 * number + place)
        rows.append({"messages": shown(number)})
    path = directory / "chat.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
