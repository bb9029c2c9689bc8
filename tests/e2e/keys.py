"""DKIM keys of a world's daemon."""

from mta.dkim.keys import Key
from tests.e2e.world import World
from tests.support.verifiers import pem


def sign(world: World, *keys: Key) -> None:
    """Mail of each key's domain is signed by it."""
    tables = []
    for key in keys:
        domain, _, selector = key.name.partition("/")
        path = world.folder / f"{selector}.pem"
        path.touch(0o600)
        path.write_bytes(pem(key.name, key.type))
        tables.append({"domain": domain, "selector": selector, "key": str(path)})
    world.configure("", dkim=tables)
