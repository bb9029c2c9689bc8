"""What a test measured (its property "figure") stands at the end of the tests' output, also with -q and over processes."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in (it for some in terminalreporter.stats.values() for it in some if isinstance(it, pytest.TestReport)):
        if report.when == "call":  # the teardown's report has the properties, too
            for name, value in report.user_properties:
                if name == "figure":
                    terminalreporter.write_line(str(value))
