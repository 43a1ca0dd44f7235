"""The life of a model with challengers."""

from tests.core.life.life import Life


class Contested(Life):
    """A life in which challengers are added, promoted and withdrawn between the steps."""

    steps = 0

    def take(self, step):
        """Take the next step, then act on the challengers."""
        super().take(step)
        self.steps += 1
        if self.steps % 6 == 1:
            self.challenge(self.steps // 6 % 2)
        elif self.steps % 6 == 4 or (self.model.phase == "overlap" and self.steps % 3 == 0):
            self.swap()
        elif self.steps % 20 == 0:
            self.withdraw()
