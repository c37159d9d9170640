"""Printing that cannot fail: where nobody reads any more, a run is asked to stop."""

from contextlib import contextmanager


@contextmanager
def stopping(asked):
    """Where nothing can be printed any more, the run is asked to stop, and saves itself."""
    try:
        yield
    except OSError:  # the disk is full, or who read our output has ended, as `head` does
        asked.append(True)


class Unfailing:
    """A stream to print on, for a progress bar: what cannot be printed asks the run to stop."""

    def __init__(self, stream, asked):
        self.stream = stream
        self.asked = asked

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        with stopping(self.asked):
            self.stream.write(text)

    def flush(self):
        with stopping(self.asked):
            self.stream.flush()
