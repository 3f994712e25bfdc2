"""The kind of some data, and the job for it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...data.chat.formats import COLUMNS
from ...data.sources.images import EXTENSIONS, images_in
from ...data.sources.rows import text_lines
from ...data.sources.splits import visible
from ...data.sources.table_cells import column_kind
from ...data.texts.configs import TaggedWordsConfig
from ...data.texts.rows import ConllFile
from ...errors import ArgumentError, DataError, nearest
from .images import classes_draft, masks_draft, with_masks
from .tables import ID_NAME, has_classes, table_draft, target_of
from .texts import chat_draft, corpus_draft, pairs_draft, texts_draft, words_draft
from .writing import ROW_FILES, Draft, Key, Place, Sheet, read_sheet, text_bytes

_TEXTS = (".txt", ".md", ".text")
_CONLL = (".conll", ".iob", ".bio", ".iob2")
_WRITTEN_BY_OTHERS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "a spreadsheet; save the sheet as CSV"),
    **dict.fromkeys((".zip", ".gz", ".tar", ".tgz", ".7z"), "an archive; unpack it and name the folder or the file"),
    **dict.fromkeys((".json",), "one JSON value; write an object a line, by `jq -c '.[]' FILE > FILE.jsonl`"),
    **dict.fromkeys(EXTENSIONS, "one image; name the folder with a folder of images for each class"),
}
_KINDS = (
    "a table (.csv, .tsv, .jsonl, .parquet), texts with a class in such a file, words with tags (.conll), pairs of"
    " texts, conversations (.jsonl with `messages`), a folder with a folder of images for each class, a folder with"
    " `images` and `masks`, or a folder of .txt"
)
_WORDS = (("tokens", "words", "sentence"), ("tags", "labels", "ner_tags", "pos_tags"))
_SOURCES = ("source", "src", "input", "question", "quelle", "document", "article", "text", "en", "english", "from")
_TARGETS = ("target", "tgt", "output", "answer", "ziel", "summary", "de", "german", "fr", "french", "to")
_SIDE = re.compile(r"(?i)[ _.-]?(1|2|a|b|one|two|first|second|left|right|premise|hypothesis)$")
_ALIKE = {"alike", "same", "similar", "similarity", "equal", "duplicate", "is_duplicate", "paraphrase", "match",
          "related", "entailment", "gleich"}  # fmt: skip
"""Ends of the names of two columns whose texts belong together; names of targets, or of classes, that compare two."""
_FEW_WORDS, _MANY_WORDS, _FEW_CHARACTERS = 3, 6, 6
"""Mean words of a text that is more than a name, and of one that says most of its row; characters without spaces."""
_LEAST_DISTINCT = 0.2
_FEW_OTHERS = 3
_OF_NUMBERS = "`kind: numbers` of docs/guide/text_classifier.md is such a job"


def drafted(place: Place, targets: Sequence[str] = ()) -> Draft:
    """The job for data.

    Args:
        place: of the data, and of the job.
        targets: the columns to predict, several if they have numbers; none takes one where the names say it.

    Raises:
        DataError: the data is of no kind that there is a job for, or is damaged.
        ArgumentError: a target is missing, or no column says that it is.
    """
    path = place.data
    if not path.exists():
        raise DataError(f"--from: there is no file or folder {path.absolute()}; check the path")
    draft = _of_folder(place) if path.is_dir() else _of_file(place, [*dict.fromkeys(targets)])
    (data,) = (section.value for section in draft.sections if section.name == "data")
    if targets and not any(it.name == "target" for it in data):
        raise ArgumentError(
            f"--target {targets[0]}: {path} has no columns of which one could be the target; leave it out"
        )
    return draft


def _of_folder(place: Place) -> Draft:
    folder = place.data
    if masks := with_masks(folder):
        return masks_draft(place, *masks)
    if images_in(folder):
        return classes_draft(place, folder)
    files = [it for it in visible(folder) if it.is_file()]
    if texts := [file for file in files if file.suffix.lower() == ".txt"]:
        return corpus_draft(place, texts, _size(texts))
    if tables := [file for file in files if file.suffix.lower() in ROW_FILES]:
        named = ", ".join(str(table) for table in tables[:3])
        raise DataError(f"{folder}: expected one file, name it by --from: {named}")
    raise DataError(
        f"{folder}: expected data, got {'other files' if files else 'an empty folder'}; --from takes {_KINDS}"
    )


def _size(texts: Sequence[Path]) -> int:
    size = 0
    for path in texts:
        content = path.stat().st_size and text_bytes(path)
        size += len(content) if content else 0
    if not size:
        raise DataError(f"{texts[0].parent}: expected text, got empty files")
    return size


def _of_file(place: Place, targets: Sequence[str]) -> Draft:
    path, ending = place.data, place.data.suffix.lower()
    if ending in _CONLL or (ending in _TEXTS and _is_conll(path)):
        config = TaggedWordsConfig(path=str(path), tokenizer="-")
        rows = [row for _, row in ConllFile(path, config.tokens, config.tags)]
        return words_draft(place, [(row[config.tokens], row[config.tags]) for row in rows], [])
    if ending in _TEXTS:
        return corpus_draft(place, [path], len(text_bytes(path)))
    if ending not in ROW_FILES:
        what = _WRITTEN_BY_OTHERS.get(ending, f"a file that ends in {ending or 'nothing'}").replace("FILE", str(path))
        hint = "" if ending in _WRITTEN_BY_OTHERS else f"{nearest(ending, [*ROW_FILES])}; --from takes {_KINDS}"
        raise DataError(f"{path}: expected data, got {what}{hint}")
    sheet = read_sheet(path)
    if missing := next((target for target in targets if target not in sheet.columns), None):
        raise ArgumentError(
            f"--target {missing}: there is no such column{nearest(missing, [*sheet.columns])}; the columns are"
            f" {', '.join(sheet.columns)}"
        )
    if len(targets) > 1:
        return table_draft(place, sheet, targets)
    draft = None if targets else (_chat(place, sheet) or _words(place, sheet))
    return draft or _rows(place, sheet, next(iter(targets), None))


def _rows(place: Place, sheet: Sheet, target: str | None) -> Draft:
    """Texts with a class, pairs of texts, or a table."""
    if len(sheet.columns) < 2:
        only = next(iter(sheet.columns))
        raise DataError(
            f"{sheet.path}: expected two or more columns, one of them to predict, got one, '{only}'; a text to continue"
            " is a .txt file, and prompts to be answered for rewards are `data: {type: Prompts}` of a config"
        )
    free = [name for name in sheet.columns if name not in sheet.partial and _is_free_text(sheet, name)]
    if len(sheet.columns) == 2 and len(free) == 2 and target is None:
        source, written = sheet.columns
        return pairs_draft(place, sheet, source, written)
    if target is None:
        source = next((it for it in free if it.lower() in _SOURCES), None)
        written = next((it for it in free if it.lower() in _TARGETS and it != source), None)
        if source and written:
            return pairs_draft(place, sheet, source, written)
    if target in free and len(free) > 1:
        return pairs_draft(place, sheet, next(it for it in free if it != target), str(target))
    target, notes = target_of(sheet, target, without=free)
    texts = [it for it in free if it != target and not ID_NAME.search(it)]
    longest = max(texts, key=lambda it: sum(map(len, sheet.texts(it))), default=None)
    others = len(sheet.columns) - len(texts) - 1
    read = _compared(sheet, target)
    # A few words beside other columns are rather a name or an address.
    if longest is not None and (others <= 1 or (others <= _FEW_OTHERS and _words_of(sheet, longest) >= _MANY_WORDS)):
        read = read or [longest]
    if read:
        values = [text.strip() for text in sheet.texts(target) if text.strip()]
        if not has_classes(sheet, column_kind(sheet.columns[target]), target, values):
            raise ArgumentError(f"{sheet.path}: expected classes of the texts, '{target}' has numbers; {_OF_NUMBERS}")
        draft = texts_draft(place, sheet, read, target)
    else:
        draft = table_draft(place, sheet, [target])
    draft.notes += notes
    return draft


def _compared(sheet: Sheet, target: str) -> list[str]:
    """The two columns of texts whose names, or the target's name or classes, say that they are compared; else none."""
    texts = [it for it in sheet.columns if it != target and it not in sheet.partial and _has_sentences(sheet, it)]
    if len(texts) != 2 or len(sheet.columns) > 3 + _FEW_OTHERS:
        return []
    one, other = (_SIDE.sub("", text).lower() for text in texts)
    is_named = one == other and all(map(_SIDE.search, texts))
    words = {text.strip().lower() for text in (target, *sheet.texts(target))}
    return texts if is_named or words & _ALIKE else []


def _chat(place: Place, sheet: Sheet) -> Draft | None:
    fitting = [name for name, needed in COLUMNS.items() if all(it in sheet.columns for it in needed)]
    if not fitting:
        return None
    rows = [dict(zip(sheet.columns, row, strict=True)) for row in zip(*sheet.columns.values(), strict=True)]
    needed = COLUMNS[fitting[0]]
    texts = [text for row in rows for name in needed for text in _texts_in(row[name])]
    is_list = isinstance(rows[0][needed[0]], list)
    if len(fitting) > 1 or not texts or (fitting[0] in ("messages", "sharegpt") and not is_list):
        return None
    return chat_draft(place, rows, fitting[0], texts)


def _texts_in(value: Any) -> list[str]:
    """The texts of a cell: its own, or the contents of its messages."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, dict):
        return _texts_in(value.get("content", value.get("value")))
    return [text for it in value for text in _texts_in(it)] if isinstance(value, list) else []


def _words(place: Place, sheet: Sheet) -> Draft | None:
    """Tags of words, if two columns have lists of as many, or in CSV words with as many spaces."""
    words, tags = (next((column for column in sheet.columns if column.lower() in names), None) for names in _WORDS)
    if words is None or tags is None or words in sheet.partial or tags in sheet.partial:
        return None
    rows = []
    for row_words, row_tags in zip(sheet.columns[words], sheet.columns[tags], strict=True):
        pair = tuple(it.split() if isinstance(it, str) else it for it in (row_words, row_tags))
        if not all(isinstance(it, list) for it in pair) or len(pair[0]) != len(pair[1]) or not pair[0]:
            return None
        rows.append(([*map(str, pair[0])], [*map(str, pair[1])]))
    if all(len(it) == 1 for it, _ in rows):  # a table with columns of such names
        return None
    keys = [Key("tokens", words, "the column of words"), Key("tags", tags, "the column of their tags")]
    return words_draft(place, rows, keys)


def _is_conll(path: Path) -> bool:
    """True if the lines of a text file are a word and a tag each, with empty lines between sentences."""
    text_bytes(path)  # refuses what is no text
    lines = [line.split() for _, line in zip(range(200), text_lines(path), strict=False)]
    filled = [line for line in lines if line]
    tags = {it[-1] for it in filled}
    is_even = len({len(it) for it in filled}) == 1 and len(filled[0]) > 1 if filled else False
    return is_even and len(filled[0]) <= 4 and len(tags) < len(filled) / 2 and len(lines) > len(filled)


def _words_of(sheet: Sheet, name: str) -> float:
    """The mean number of words of the texts of a column."""
    texts = [text for text in sheet.texts(name) if text.strip()]
    return sum(len(text.split()) for text in texts) / max(1, len(texts))


def _is_free_text(sheet: Sheet, name: str) -> bool:
    """True if a column has texts of some words, most of which stand there once."""
    texts = [text for text in sheet.texts(name) if text.strip()]
    return len(set(texts)) >= _LEAST_DISTINCT * len(texts) and _has_sentences(sheet, name)


def _has_sentences(sheet: Sheet, name: str) -> bool:
    """True if a column has texts of some words."""
    texts = [text for text in sheet.texts(name) if text.strip()]
    if not texts or not all(it is None or isinstance(it, str) for it in sheet.columns[name]):
        return False
    characters = sum(map(len, texts)) / len(texts)
    has_spaces = sum(" " in text.strip() for text in texts) > len(texts) / 2
    is_spaceless = sum(any("\u3040" <= character <= "\u9fff" for character in text) for text in texts) > len(texts) / 4
    return (_words_of(sheet, name) >= _FEW_WORDS and has_spaces) or (is_spaceless and characters >= _FEW_CHARACTERS)
