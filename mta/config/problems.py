"""What is wrong with a configuration, as values."""

from collections.abc import Iterable
from dataclasses import dataclass

from mta.model.text import safe_text


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake, or one thing to be warned of. `key` is the whole key ("spool.url"), "" for the file itself; `line` is
    counted from 1, 0 where it is not known."""

    key: str
    message: str
    line: int = 0

    def __str__(self) -> str:
        return safe_text(f"{self.key}: {self.message}" if self.key else self.message)


class ConfigError(Exception):
    """A configuration that can't be used (exit code 78); `source` is the file's name. Its text has a line for each
    problem."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = safe_text(source)
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(self.lines()))

    def lines(self) -> tuple[str, ...]:
        return tuple(f"{self._where(problem)}: {problem}" for problem in self.problems)

    def _where(self, problem: Problem) -> str:
        return f"{self.source}:{problem.line}" if problem.line else self.source


def refuse(problems: Iterable[Problem]) -> None:
    """Raises `ConfigError` if there are any."""
    if found := [*problems]:
        raise ConfigError("the configuration", found)
