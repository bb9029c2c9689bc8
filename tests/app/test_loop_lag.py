"""A daemon whose loop was held says so."""

import re
import signal
import time

from mta.observe.lag import INTERVAL, WORTH_TELLING
from tests.e2e.world import World
from tests.support.daemon import until

HELD = WORTH_TELLING + INTERVAL + 0.2


async def test_a_process_that_was_stopped_for_a_while_tells_it_in_log_and_status(running: World) -> None:
    daemon = running.daemon
    assert (await daemon.json("status"))["loop_lag"] >= 0  # it is at work, and watches
    daemon.send(signal.SIGSTOP)
    time.sleep(HELD)  # what is to be seen: time goes by, and nobody works
    daemon.send(signal.SIGCONT)
    assert await until(lambda: "event loop was held for" in daemon.log_text)
    assert (await daemon.json("status"))["loop_lag"] > WORTH_TELLING
    assert re.search(r"^loop lag    up to [0-9.]+ s within the last minute$", await daemon.ask("status"), re.MULTILINE)
