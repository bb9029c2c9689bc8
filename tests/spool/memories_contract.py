"""What every spool promises of what it remembers beside mail."""

from mta.spool.base import Memory, Spool
from tests.spool.house import House
from tests.spool.making import NOW


class Memories:
    async def test_a_value_is_remembered_under_its_name_and_kind(self, house: House, spool: Spool) -> None:
        await spool.remember(Memory.RATE, {"example.org": "old", "example.net": "n"}, None, NOW)
        await spool.remember(Memory.RATE, {"example.org": "new"}, NOW + 10, NOW + 1)
        await spool.remember(Memory.LIMIT, {"example.org": "other"}, None, NOW)
        spool = await house.reopen()
        found = await spool.recall(Memory.RATE, ["example.org", "nobody.example"], NOW + 2)
        assert {name: (one.value, one.at, one.expires_at) for name, one in found.items()} == {
            "example.org": ("new", NOW + 1, NOW + 10)
        }
        assert [one.name for one in await spool.memories(Memory.RATE, "", 9, NOW)] == ["example.net", "example.org"]
        assert [one.name for one in await spool.memories(Memory.RATE, "example.net", 9, NOW)] == ["example.org"]
        assert len(await spool.memories(Memory.RATE, "", 1, NOW)) == 1

    async def test_what_has_expired_is_not_remembered_and_goes_with_the_purge(self, house: House, spool: Spool) -> None:
        await spool.remember(Memory.STS_POLICY, {"a.example": "a"}, NOW + 10, NOW)
        await spool.remember(Memory.STS_POLICY, {"b.example": "b"}, None, NOW)
        assert set(await spool.recall(Memory.STS_POLICY, ["a.example", "b.example"], NOW + 10)) == {"b.example"}
        assert [one.name for one in await spool.memories(Memory.STS_POLICY, "", 9, NOW + 10)] == ["b.example"]
        await spool.purge(NOW, NOW, 100, NOW + 10)
        assert set(await spool.recall(Memory.STS_POLICY, ["a.example", "b.example"], NOW)) == {"b.example"}

    async def test_what_is_forgotten_is_gone(self, spool: Spool) -> None:
        await spool.remember(Memory.SUPPRESSION, {"a@example.org": "x", "b@example.org": "x"}, None, NOW)
        assert await spool.forget(Memory.SUPPRESSION, ["a@example.org", "c@example.org"], NOW) == 1
        assert [one.name for one in await spool.memories(Memory.SUPPRESSION, "", 9, NOW)] == ["b@example.org"]
