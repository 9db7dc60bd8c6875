"""Running code that may crash or hang: in a child process that says on its stdout, in JSON lines, how far it is."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

Event = dict[str, Any]

_TAIL = 3000  # characters of the child's last words that are kept


class Dead(Exception):  # noqa: N818  (not an error of this program)
    """The child ended before it said so."""

    def __init__(self, how: str, last_words: str) -> None:
        super().__init__(how)
        self.how = how
        self.last_words = last_words


def events(
    arguments: Sequence[str],
    *,
    command: Sequence[str],
    timeout: float = 60.0,
    start: float = 900.0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Event]:
    """Yield a child's messages as they come.

    Raises
    ------
    Dead
        Where it was killed by a signal, failed, or said nothing for ``timeout`` seconds; for ``start`` seconds at
        first, when it compiles.
    """
    with tempfile.TemporaryFile() as words:
        child = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=words, env={**os.environ, **(environment or {})}
        )
        try:
            ended = yield from _listen(child, start, timeout)
            if not ended:
                status = child.wait()
                name = f"signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"exit status {status}"
                raise Dead(name, _tail(words))
        except TimeoutError:
            child.send_signal(signal.SIGABRT)  # faulthandler writes where it is
            time.sleep(1.0)
            raise Dead("no progress", _tail(words)) from None
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _listen(child: subprocess.Popen[bytes], start: float, timeout: float) -> Generator[Event, None, bool]:
    """Yield events; give whether the child ended well."""
    if child.stdout is None:
        raise ValueError("the child has no stdout")
    rest, patience = b"", start
    while True:
        ready, _, _ = select.select([child.stdout], [], [], patience)
        if not ready:
            raise TimeoutError
        data = os.read(child.stdout.fileno(), 1 << 16)
        if not data:
            return child.wait() == 0
        patience = timeout
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


def _tail(words: Any) -> str:
    """Return the stacks that faulthandler wrote after a crash."""
    words.seek(0)
    text: str = words.read().decode(errors="replace")
    return text.partition("Extension modules:")[0][-_TAIL:]


class Voice:
    """The child's side: a separate descriptor for its messages, so that output of libraries does not mix with them."""

    def __init__(self) -> None:
        self._to = os.dup(1)
        os.dup2(2, 1)

    def say(self, **event: Any) -> None:
        """Tell the parent."""
        os.write(self._to, json.dumps(event).encode() + b"\n")
