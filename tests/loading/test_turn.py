"""Turns of threads that prepare batches in Python."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gpuimg
from gpuimg._threads.turn import Turn, end_turn

pytestmark = pytest.mark.usefixtures("watched")


def _entered(turn: Turn) -> tuple[threading.Thread, threading.Event]:
    """A thread that enters a turn and leaves it, and an event that is set once it has entered."""
    entered = threading.Event()

    def enter() -> None:
        with turn:
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    return thread, entered


def test_a_turn_ends_with_its_block_or_where_native_work_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuimg._threads.turn._PATIENCE", 60.0)
    turn = Turn()
    with turn:
        thread, entered = _entered(turn)
        assert not entered.wait(0.2)
    assert entered.wait(60)
    thread.join()
    with turn:
        thread, entered = _entered(turn)
        gpuimg.resize(np.zeros((1, 4, 4, 3), np.uint8), (2, 2)).array()
        assert entered.wait(60)
        thread.join()
        end_turn()  # has ended already


def test_nobody_waits_long_for_a_turn() -> None:
    turn = Turn()
    with turn:
        thread, entered = _entered(turn)
        assert entered.wait(60)
        thread.join()
        with turn:  # nor a thread that has it
            pass
    thread, entered = _entered(turn)
    assert entered.wait(60)
    thread.join()
