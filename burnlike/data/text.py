"""Texts as tokens and windows of them: `TextCorpus`, read as bytes and split into training and validation."""

import hashlib
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .._memory import available_memory
from .._regular_file import read_regular, regular_size
from ..errors import DataError
from .codec import TextCodec
from .configs import TextCorpusConfig
from .sources.splits import existing, visible


class TokenWindows:
    """Windows of `length + 1` tokens: a model reads the first `length` and predicts the last `length`.

    Windows start every `stride` tokens; those that would reach past the end are left out. With the default stride every
    token but the first is predicted exactly once (the last, incomplete window apart).
    """

    draws = False

    def __init__(self, tokens: Tensor, length: int, stride: int | None = None, fingerprint: str | None = None) -> None:
        """Make the windows; nothing is copied.

        Args:
            tokens: `[n]`, of any integer dtype.
            length: tokens that a model reads.
            stride: distance of the starts of two windows, >= 1; default: `length`.
            fingerprint: a hash of the data, by which a loader's saved position knows it again.

        Raises:
            DataError: there are too few tokens for one window.
        """
        if len(tokens) < length + 1:
            raise DataError(f"expected at least {length + 1} tokens for one window of {length}, got {len(tokens)}")
        self.tokens = tokens
        self.length = length
        self.stride = length if stride is None else stride
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return (len(self.tokens) - self.length - 1) // self.stride + 1

    def __getitem__(self, index: int, /) -> Tensor:
        """`[length + 1]`, a view of the tokens."""
        if not 0 <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        start = index * self.stride
        return self.tokens[start : start + self.length + 1]


class TokenBatcher:
    """Stacks windows into one batch of int64."""

    makes = "windows of tokens"

    def batch(self, items: Sequence[Tensor], device: torch.device) -> Tensor:
        """`[n]` each -> `[batch, n]`, int64, on `device`."""
        stacked = torch.stack(list(items))
        if device.type == "cuda":
            # bytes travel, not int64; from pinned memory the copy runs beside the step before
            return stacked.pin_memory().to(device, non_blocking=True).long()
        return stacked.to(device).long()


TOKENIZER_NAME = "tokenizer.json"
_COPIES = 4
"""As files, joined, as tokens, and a part of them while it is decoded."""


class TextCorpus:
    """The training and validation text, as tokens and as windows of them.

    Attributes:
        train_tokens: `[n]`, the training text; uint8 for bytes, int32 for tokens of a tokenizer.
        valid_tokens: `[m]`, the validation text.
        vocab_size: number of different tokens.
        encode: the tokens `[n]` int64 of a text.
        decode: the text of tokens `[n]`; bytes that are not UTF-8 show as the replacement character.
        files: the tokenizer's, which a run keeps.
        train: windows over the training text.
        valid: windows over the validation text.
        batcher: stacks windows.
        fingerprint: SHA-256 of both texts; equal for equal data, whatever the file names.
    """

    def __init__(self, config: TextCorpusConfig) -> None:
        train_text, valid_text = read_texts(config)
        remedy = "give more text in data.path, or a smaller data.context_length"
        is_divided = config.path is not None and config.validation_path is None
        smaller, larger = (f"{remedy}, or a {it} data.validation_fraction" for it in ("smaller", "larger"))
        tokenizer = None if config.tokenizer is None else Path(config.tokenizer).expanduser()
        self.files = {} if tokenizer is None else {TOKENIZER_NAME: tokenizer}
        self._codec = TextCodec(tokenizer)
        self.encode, self.decode = self._codec.encode, self._codec.decode
        self.vocab_size = self._codec.vocab_size
        self.train_tokens = self._tokens(train_text, "training", config, smaller if is_divided else remedy)
        self.valid_tokens = self._tokens(valid_text, "validation", config, larger if is_divided else remedy)
        if not train_text.strip(train_text[:1]):
            raise DataError(
                f"{_origin(config)}: expected text of at least two different characters, got {len(train_text)} times "
                f"{chr(train_text[0])!r}; there is nothing to learn from it, give another data.path"
            )
        digest = hashlib.sha256(len(train_text).to_bytes(8, "little"))
        digest.update(train_text)
        digest.update(valid_text)
        if config.tokenizer is not None:
            digest.update(read_regular(Path(config.tokenizer).expanduser()))
        self.fingerprint = digest.hexdigest()
        self.train, self.valid = (
            TokenWindows(tokens, config.context_length, fingerprint=self.fingerprint)
            for tokens in (self.train_tokens, self.valid_tokens)
        )
        self.batcher = TokenBatcher()

    def _tokens(self, text: bytes, part: str, config: TextCorpusConfig, remedy: str) -> Tensor:
        wanted, unit = config.context_length + 1, "tokens" if self.files else "bytes"
        tokens = self.encode(text.decode(errors="replace")).int() if self.files else _as_bytes(text)
        if len(tokens) < wanted:
            raise DataError(
                f"{_origin(config)}: the {part} text has {len(tokens)} {unit}, expected at least {wanted} "
                f"(data.context_length {config.context_length} and one more); {remedy}"
            )
        return tokens


def codec(config: TextCorpusConfig, directory: Path) -> TextCodec:
    """Text to tokens and back as the corpus of a config has them; a run keeps the tokenizer in `directory`."""
    return TextCodec(directory / TOKENIZER_NAME if config.tokenizer else None, config.context_length)


def read_texts(config: TextCorpusConfig) -> tuple[bytes, bytes]:
    if config.path is None:
        files = [stdlib_files(TRAINING_FILES), stdlib_files(VALIDATION_FILES)]
        if not all(files):
            raise DataError(
                "the source text of Python's standard library is not installed as files; "
                "set data.path to a text file or a directory of them"
            )
        train_text, valid_text = (b"".join(_read(file) for file in part) for part in files)
        return train_text, valid_text
    texts = _read_all(config.path, config.pattern, "data.path")
    if config.validation_path is not None:
        valid_texts = _read_all(config.validation_path, config.pattern, "data.validation_path")
        return b"".join(texts.values()), b"".join(valid_texts.values())
    if len(texts) == 1:
        (text,) = texts.values()
        cut = round(len(text) * (1 - config.validation_fraction))
        return text[:cut], text[cut:]
    valid_names = _choose_validation({name: len(text) for name, text in texts.items()}, config.validation_fraction)
    return (
        b"".join(text for name, text in texts.items() if name not in valid_names),
        b"".join(text for name, text in texts.items() if name in valid_names),
    )


def _choose_validation(sizes: dict[str, int], fraction: float) -> set[str]:
    """Names of the files kept for validation: as many as fit into their share, at least the smallest one.

    They are tried in the order of a hash of their names, so that the choice favours no part of the alphabet and a new
    file moves few others.
    """
    budget = fraction * sum(sizes.values())
    chosen: set[str] = set()
    for name in sorted(sizes, key=lambda name: hashlib.sha256(name.encode()).digest()):
        if sizes[name] <= budget:
            chosen.add(name)
            budget -= sizes[name]
    return chosen or {min(sizes, key=lambda name: (sizes[name], name))}


def _read_all(path: str, pattern: str, field: str) -> dict[str, bytes]:
    """Text of the file or of each file of the directory at `path`, by its name below `path`, sorted by name."""
    root = existing(path, field, "any")
    if root.is_dir():
        files = [it for it in visible(root, pattern) if it.is_file()]
        if not files:
            raise DataError(f"{field}: the directory {root} has no file that matches data.pattern '{pattern}'")
    else:
        files = [root]
    _check_fits(files, f"{field}: {root}")
    texts = {file.relative_to(root).as_posix() if file != root else root.name: _read(file) for file in files}
    texts = {name: text for name, text in texts.items() if text}
    if not texts:
        raise DataError(f"{field}: {root} is empty; give a file or directory with text in it")
    return texts


def _check_fits(files: list[Path], what: str) -> None:
    """Refuse more text than there is memory for, before any of it is read."""
    text_bytes = sum(_of_file(file, regular_size) for file in files)
    available = available_memory()
    if text_bytes * _COPIES > available:
        raise DataError(
            f"{what} has {text_bytes:,} bytes of text, which take {_COPIES} times as much memory while they are read;"
            f" {available:,} bytes are available. Give a part of it"
        )


def _of_file(file: Path, function: Callable[[Path], Any]) -> Any:
    try:
        return function(file)
    except OSError as error:
        remedy = "check its permissions or choose another"
        raise DataError(f"{file} can't be read: {error.strerror}; {remedy}") from error


def _read(file: Path) -> bytes:
    text = _of_file(file, read_regular)
    remedy = "choose text files only (data.pattern, such as '**/*.txt') or convert it to UTF-8"
    if (position := text.find(0)) >= 0:
        raise DataError(f"{file}: expected text, got a zero byte at offset {position}; {remedy}")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}: expected UTF-8 text, got byte 0x{text[error.start]:02x} at offset {error.start}; {remedy}"
        ) from error
    return text


def _as_bytes(text: bytes) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else torch.zeros(0, dtype=torch.uint8)


def _origin(config: TextCorpusConfig) -> str:
    return "the standard library" if config.path is None else config.path


_VALIDATION = """
    asyncio/locks.py calendar.py csv.py email/generator.py fractions.py http/cookies.py json/encoder.py
    logging/config.py queue.py shelve.py textwrap.py unittest/loader.py uuid.py weakref.py
"""

_TRAINING = """
    _collections_abc.py _markupbase.py _pydecimal.py _pyio.py _strptime.py _weakrefset.py abc.py argparse.py ast.py
    asyncio/base_events.py asyncio/base_subprocess.py asyncio/events.py asyncio/futures.py
    asyncio/proactor_events.py asyncio/queues.py asyncio/runners.py asyncio/selector_events.py
    asyncio/sslproto.py asyncio/staggered.py asyncio/streams.py asyncio/subprocess.py asyncio/taskgroups.py
    asyncio/tasks.py asyncio/timeouts.py asyncio/transports.py asyncio/unix_events.py asyncio/windows_events.py
    base64.py bdb.py bisect.py bz2.py cProfile.py cmd.py code.py codecs.py codeop.py collections/__init__.py
    colorsys.py compileall.py concurrent/futures/_base.py concurrent/futures/process.py
    concurrent/futures/thread.py configparser.py contextlib.py copy.py copyreg.py ctypes/__init__.py ctypes/util.py
    dataclasses.py difflib.py dis.py doctest.py email/_encoded_words.py email/_header_value_parser.py
    email/_parseaddr.py email/_policybase.py email/charset.py email/contentmanager.py email/feedparser.py
    email/header.py email/headerregistry.py email/message.py email/policy.py email/quoprimime.py email/utils.py
    enum.py filecmp.py fileinput.py fnmatch.py ftplib.py functools.py genericpath.py getopt.py getpass.py
    gettext.py graphlib.py gzip.py hashlib.py heapq.py hmac.py html/parser.py http/client.py http/cookiejar.py
    http/server.py imaplib.py importlib/_bootstrap.py importlib/_bootstrap_external.py importlib/abc.py
    importlib/metadata/__init__.py importlib/util.py inspect.py ipaddress.py json/__init__.py json/decoder.py
    json/scanner.py linecache.py logging/__init__.py logging/handlers.py lzma.py mailbox.py mimetypes.py
    modulefinder.py multiprocessing/connection.py multiprocessing/context.py multiprocessing/forkserver.py
    multiprocessing/heap.py multiprocessing/managers.py multiprocessing/pool.py multiprocessing/process.py
    multiprocessing/queues.py multiprocessing/reduction.py multiprocessing/shared_memory.py
    multiprocessing/sharedctypes.py multiprocessing/spawn.py multiprocessing/synchronize.py
    multiprocessing/util.py netrc.py ntpath.py numbers.py opcode.py operator.py optparse.py os.py pdb.py pickle.py
    pickletools.py pkgutil.py platform.py plistlib.py poplib.py posixpath.py pprint.py profile.py pstats.py
    py_compile.py pyclbr.py pydoc.py quopri.py random.py re/__init__.py re/_compiler.py re/_parser.py reprlib.py
    rlcompleter.py runpy.py sched.py secrets.py selectors.py shlex.py shutil.py signal.py site.py smtplib.py
    socket.py socketserver.py ssl.py stat.py statistics.py string.py subprocess.py symtable.py tabnanny.py
    tarfile.py tempfile.py threading.py timeit.py tokenize.py tomllib/_parser.py trace.py traceback.py
    tracemalloc.py types.py typing.py unittest/async_case.py unittest/case.py unittest/main.py unittest/mock.py
    unittest/result.py unittest/runner.py unittest/suite.py urllib/parse.py urllib/request.py
    urllib/robotparser.py warnings.py wave.py webbrowser.py wsgiref/handlers.py wsgiref/simple_server.py
    wsgiref/util.py wsgiref/validate.py xml/dom/expatbuilder.py xml/dom/minidom.py xml/dom/pulldom.py
    xml/dom/xmlbuilder.py xml/etree/ElementPath.py xml/etree/ElementTree.py xml/sax/expatreader.py
    xml/sax/handler.py xml/sax/saxutils.py xml/sax/xmlreader.py xmlrpc/client.py xmlrpc/server.py zipapp.py
    zipimport.py zoneinfo/_common.py zoneinfo/_zoneinfo.py
"""

# The default corpus, so that a first run needs no download. All exist in Python 3.11 and 3.12 and in the stripped
# installs that Linux distributions ship (no tests, no Tk, no pip). Generated tables (encodings, HTML entities) are left
# out, and training and validation are different files.
VALIDATION_FILES = tuple(_VALIDATION.split())
TRAINING_FILES = tuple(_TRAINING.split())


def stdlib_files(names: tuple[str, ...]) -> list[Path]:
    """Paths of those of the named files that this Python has: a later version may have moved one of them."""
    root = Path(sysconfig.get_path("stdlib"))
    return [path for path in (root / name for name in names) if path.is_file()]
