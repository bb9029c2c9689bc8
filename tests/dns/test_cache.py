from mta.dns.cache import TtlCache


def test_a_value_is_there_until_it_expires() -> None:
    cache: TtlCache[str, int] = TtlCache(10)
    cache.put("a", 1, expires_at=5.0)
    assert cache.get("a", now=4.9) == 1
    assert cache.get("a", now=5.0) is None
    assert len(cache) == 0


def test_the_least_used_goes_first() -> None:
    cache: TtlCache[str, int] = TtlCache(2)
    cache.put("a", 1, expires_at=9.0)
    cache.put("b", 2, expires_at=9.0)
    cache.get("a", now=0.0)
    cache.put("c", 3, expires_at=9.0)
    assert [cache.get(key, now=0.0) for key in "abc"] == [1, None, 3]


def test_what_is_heavy_leaves_less_room() -> None:
    cache: TtlCache[str, int] = TtlCache(10, 5)
    for name, weight in (("a", 2), ("b", 2), ("a", 3), ("c", 1)):
        cache.put(name, weight, expires_at=9.0, weight=weight)
    assert [cache.get(key, now=0.0) for key in "abc"] == [3, None, 1]
    cache.put("d", 6, expires_at=9.0, weight=6)
    assert len(cache) == 0
    cache.put("e", 5, expires_at=9.0, weight=5)
    assert cache.get("e", now=9.0) is None
    cache.put("f", 5, expires_at=19.0, weight=5)
    assert cache.get("f", now=9.0) == 5
