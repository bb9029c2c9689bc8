"""What is remembered of hosts, and how long it is heeded."""

import asyncio
import math

from mta.delivery.hosts import HostMemory
from mta.model.outcome import Disposition, Phase, Scope, Verdict
from mta.model.reply import finding
from mta.policy.candidates import Candidate
from tests.support.virtual import run_virtual

GONE = Verdict(Disposition.TRANSIENT, Scope.SESSION, "4.4.1", finding("4.4.1", "no answer"), Phase.CONNECT)
A, B = ("192.0.2.1", 25), ("192.0.2.2", 25)
HOSTS = (("mx1.test", "192.0.2.1"), ("mx2.test", "192.0.2.2"), ("mx3.test", "192.0.2.3"))


def seconds(memory: HostMemory, heeds: float) -> float:
    """For how long `A` is still left alone."""
    found = memory.resting(A, heeds)
    return found[1] if found is not None else 0.0


def test_a_rest_is_heeded_to_its_end_or_as_long_as_one_heeds_it():
    async def main() -> None:
        memory = HostMemory()
        assert seconds(memory, math.inf) == 0
        memory.blame(A, GONE, 300)
        assert [seconds(memory, heeds) for heeds in (math.inf, 1.0, 0.0)] == [300, 1, 0]
        await asyncio.sleep(2)
        assert [round(seconds(memory, heeds), 6) for heeds in (math.inf, 1.0)] == [298, 0]
        await asyncio.sleep(299)
        assert seconds(memory, math.inf) == 0

    run_virtual(main())


def test_failures_within_a_rest_count_once_and_prolong_none():
    """But who is in a hurry waits a second from each of them."""

    async def main() -> None:
        memory = HostMemory()
        memory.blame(A, GONE, 300)
        await asyncio.sleep(100)
        memory.blame(A, GONE, 300)
        assert memory.failures(A) == 1
        assert [seconds(memory, heeds) for heeds in (math.inf, 1.0)] == [200, 1]
        await asyncio.sleep(201)
        memory.blame(A, GONE, 300)
        assert memory.failures(A) == 2

    run_virtual(main())


def test_the_living_go_first_in_their_order():
    async def main() -> None:
        memory = HostMemory()
        hosts = [Candidate(name, address, 10) for name, address in HOSTS]
        memory.blame(A, GONE, 300)
        assert memory.living_first(hosts) == [hosts[1], hosts[2], hosts[0]]
        memory.revive()
        assert memory.living_first(hosts) == hosts

    run_virtual(main())


def test_an_address_may_be_spoken_to_in_clear_at_one_port_and_encrypted_at_another():
    async def main() -> None:
        memory = HostMemory()
        memory.remember_clear(A)
        assert memory.speaks_clear(A) and not memory.speaks_clear((A[0], 587))

    run_virtual(main())


def test_an_address_may_be_dead_at_one_port_and_alive_at_another():
    async def main() -> None:
        memory = HostMemory()
        memory.blame(A, GONE, 300)
        assert memory.dead(A) is not None
        assert memory.dead((A[0], 587)) is None

    run_virtual(main())
