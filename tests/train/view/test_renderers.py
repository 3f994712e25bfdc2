"""Renderers: plain lines and the live bar."""

import builtins
import io
import sys
from typing import Any

import pytest

from burnlike.train import PlainRenderer, RichRenderer, choose_renderer

TRAIN = {"step": 5, "epoch": 0, "split": "train", "loss": 1.25, "lr": 3e-4, "tokens_per_s": 12345.6}
VALID = {"step": 50, "epoch": 1, "split": "valid", "loss": 0.5}


def lines_of(interval_s: float, shown: list[dict[str, Any]]) -> list[str]:
    stream = io.StringIO()
    renderer = PlainRenderer(stream, interval_s)
    renderer.start(0, 100)
    for step, metrics in enumerate(shown):
        renderer.advance(step)
        renderer.show(metrics)
    renderer.note("done")
    renderer.close()
    return stream.getvalue().splitlines()


def test_plain_lines_hold_the_metrics_and_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.0, *[10.0] * 100])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    assert lines_of(0, [TRAIN, VALID]) == [
        "step   5/100  epoch 1  loss 1.2500  lr 3.0e-04  12,346 tokens/s  0:10 elapsed  3 mins left",
        "step  50/100  epoch 2  validation loss 0.5000  0:10 elapsed  10 secs left",
        "done",
    ]


def test_plain_lines_of_training_keep_their_distance_but_the_last_one_and_validation_are_shown() -> None:
    last = {**TRAIN, "step": 100}
    shown = lines_of(1000, [TRAIN, TRAIN, VALID, TRAIN, last])
    assert [line.split()[1] for line in shown[:-1]] == ["5/100", "50/100", "100/100"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_lines_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert isinstance(choose_renderer(), PlainRenderer)


def test_a_terminal_gets_the_bar_unless_it_is_dumb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(choose_renderer(), RichRenderer)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(choose_renderer(), PlainRenderer)


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_rich(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError(name)
        return real_import(name, *arguments, **options)

    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(builtins, "__import__", no_rich)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert isinstance(choose_renderer(), PlainRenderer)


def test_text_with_brackets_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    renderer = RichRenderer()
    renderer.note("sample: x[bold] = y[0]")
    renderer.close()
    renderer.close()
    assert "sample: x[bold] = y[0]" in stream.getvalue()
