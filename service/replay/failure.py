"""What ends a replay."""


class Failed(Exception):
    """The replay cannot go on; the message is for the person who started it, its first line the reason."""


class Interrupted(KeyboardInterrupt):
    """A signal asks the replay to end.

    Args:
        signal: its number.
    """

    def __init__(self, signal: int) -> None:
        super().__init__()
        self.signal = signal
