# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Progress of long work, on a terminal or as lines of a log."""

import threading
import time
from contextlib import contextmanager

from skope_ope._harmless import harmless

PROGRESS_PATIENCE = 0.5  # seconds of work that nobody needs to be told of
TICK = 0.5  # seconds between updates of a line on a terminal
LINE = 10.0  # seconds between lines where they cannot be rewritten


class ProgressLine:
    """Tell on a stream what is being done, and for how long already."""

    def __init__(self, stream, wanted=None):
        self.stream = stream
        self.rewrites = hasattr(stream, "isatty") and stream.isatty()
        self.enabled = self.rewrites if wanted is None else wanted
        self.patience = PROGRESS_PATIENCE if wanted is None else 0.0

    @contextmanager
    def step(self, text):
        """Run the body as one step; yields a function that takes news of it."""
        if not self.enabled:
            yield lambda news: None
            return
        state = {"news": ""}
        done = threading.Event()
        start = time.monotonic()
        ticker = threading.Thread(
            target=self._tick, args=(text, state, done, start), daemon=True
        )
        ticker.start()
        try:
            yield lambda news: state.update(news=news)
        finally:
            done.set()
            ticker.join()
            if time.monotonic() - start >= self.patience:
                self._write(text, state, start, last=True)

    def _tick(self, text, state, done, start):
        wait = max(PROGRESS_PATIENCE, self.patience)
        while not done.wait(wait if self.rewrites else LINE):
            self._write(text, state, start)
            wait = TICK

    def _write(self, text, state, start, last=False):
        news = f": {state['news']}" if state["news"] else ""
        line = f"{harmless(text + news)} ({time.monotonic() - start:.1f} s)"
        if self.rewrites:  # back to the start of the line, and clear it
            self.stream.write(f"\r\x1b[K{line}" + ("\n" if last else ""))
        else:
            self.stream.write(line + "\n")
        self.stream.flush()
