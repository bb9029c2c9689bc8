"""Who shares limits by the servers of its domain."""

from mta.policy.destinations import DestinationRule, Destinations
from mta.policy.shares import NAMES_LIMIT, Shares


def test_a_domain_of_thousands_of_servers_does_not_fill_the_memory() -> None:
    """An MX answer over TCP may name thousands, each of 250 octets; who has the same ones still shares."""
    shares = Shares(Destinations((DestinationRule(("*",), by_servers=True),)))
    many = [f"mx{number}.{'x' * 60}.test" for number in range(4000)]
    shares.routed("a.test", many)
    shares.routed("b.test", reversed(many))
    shares.routed("c.test", many[1:])
    shares.routed("d.test", ["mx1.test", "mx2.test"])
    assert shares.name("a.test") == shares.name("b.test") != shares.name("c.test")
    assert max(map(len, map(shares.name, ("a.test", "c.test")))) < NAMES_LIMIT
    assert shares.name("d.test") == "*mx:*:mx1.test,mx2.test"
