"""Chat templates filled in a process beside this one, with limits: a template is a program that a stranger wrote.

Jinja's sandbox keeps a template from files and from Python's objects, not from loops without an end or from texts that
fill the memory. Only the kernel ends these, so that this file is also a program: it reads requests and writes texts.
"""

import json
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, BinaryIO

SECONDS, MEMORY_BYTES, CHARACTERS = 5, 2**30, 2**26
"""What one conversation may take: time of a CPU, memory beside the program's own, and length of the text."""
DATE = datetime(2024, 7, 26)
"""The date that templates write on any day, so that a training has the same tokens: Llama's without a clock."""
_MESSAGE = 1000
_SIZE = struct.Struct("<Q")


class OverLimitError(Exception):
    """A template took more time or memory than it may; the message says which."""


class Filler:
    """Fills templates, one after the other, in a process that ends with this one."""

    def __init__(self) -> None:
        from ..._env import for_python_beside

        # An answer belongs to the request before it: threads take turns.
        self._lock = threading.Lock()
        # -P: a file of the user's directory is not to stand for a module.
        command = [sys.executable, "-P", __file__]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, env=for_python_beside(), **pipes)
        self._requests: Any = self._process.stdin
        self._answers: Any = self._process.stdout
        weakref.finalize(self, _end, self._process, os.getpid())

    def fill(self, requests: Sequence[dict[str, Any]]) -> list[tuple[str, list[list[int]]]]:
        """The texts of options of transformers' `render_jinja_template`, and from and to where each marks answers.

        Raises:
            OverLimitError: it takes too much.
            ValueError: the template refuses the conversation; the message says why.
        """
        try:
            content = pickle.dumps(requests)
        except (RecursionError, pickle.PicklingError, TypeError) as error:
            raise ValueError(str(error)) from error
        with self._lock:
            try:
                _send(self._requests, content)
                answer = _received(self._answers)
            except BrokenPipeError:
                answer = b""
            except BaseException:  # such as Ctrl-C: what comes now would answer the wrong request
                self._process.kill()
                filler.cache_clear()
                raise
        if not answer:
            filler.cache_clear()
            ending = self._process.wait()
            if ending != -signal.SIGXCPU:
                raise OverLimitError(f"ends the process that fills it ({ending})")
            raise OverLimitError(f"takes more than {SECONDS} s")
        texts, limit, problem = json.loads(answer)
        if limit:
            raise OverLimitError(limit)
        if problem is not None:
            raise ValueError(problem)
        return texts


@lru_cache(maxsize=1)
def filler(process: int) -> Filler:
    """The one of this process, by its number: a forked process must not read what another one has asked for."""
    return Filler()


def _end(process: Any, owner: int) -> None:
    if os.getpid() == owner:
        process.kill()  # workers that were forked meanwhile keep its input open
        process.wait()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()


def _send(file: BinaryIO, content: bytes) -> None:
    file.write(_SIZE.pack(len(content)) + content)
    file.flush()


def _received(file: BinaryIO) -> bytes:
    """Read one message of the other side; empty if it has ended."""
    size = file.read(_SIZE.size)
    content = file.read(_SIZE.unpack(size)[0]) if len(size) == _SIZE.size else b""
    return content if size and len(content) == _SIZE.unpack(size)[0] else b""


def _serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks ends this one
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # no library may print between answers
    from transformers.utils import chat_template_utils

    chat_template_utils.__dict__["datetime"] = _Clock  # which `strftime_now` of templates asks

    with open("/proc/self/statm", encoding="ascii") as file:
        most = int(file.read().split()[0]) * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    # A process that is ended is not to leave its memory on the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while request := _received(requests):
        used = resource.getrusage(resource.RUSAGE_SELF)
        # From now on: the limit counts all time since the process began.
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + SECONDS + 1, -1))
        _send(answers, json.dumps(_answer(chat_template_utils.render_jinja_template, pickle.loads(request))).encode())


class _Clock:
    """The clock of templates, in place of `datetime`."""

    @staticmethod
    def now() -> datetime:
        return DATE


def _answer(render: Any, requests: list[dict[str, Any]]) -> list[Any]:
    """The texts with their marks, what limit is passed, and why the conversation is refused."""
    texts = []
    try:
        for options in requests:
            (text,), marks = render(**options)
            texts.append([text, marks[0] if marks else []])
    except MemoryError:
        return [[], f"takes more than {MEMORY_BYTES >> 20} MiB of memory", None]
    except Exception as error:  # a template of any kind raises errors of any kind
        return [[], "", " ".join(str(error)[:_MESSAGE].split()) or type(error).__name__]
    if any(len(text) > CHARACTERS for text, _ in texts):
        return [[], f"writes more than {CHARACTERS:,} characters", None]
    return [texts, "", None]


if __name__ == "__main__":
    _serve()
