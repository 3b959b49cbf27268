"""How many keys a cache holds, and for how long, without a server."""

from __future__ import annotations

import time

from keymill._calls import Batch
from keymill._demand import CacheSettings, Demand
from keymill._stock import Fetch, Stock

DEFAULT = CacheSettings(30.0, 32, 100_000, 600.0, True)


def test_the_target_is_half_a_minute_of_demand_within_its_bounds() -> None:
    demand = Demand(0)
    assert demand.target(DEFAULT, 600) == 32, "at rest"
    for second in range(1, 61):
        demand.sample(second * 1_000, second)
    assert 29_900 <= demand.target(DEFAULT, 600) <= 30_000
    assert demand.target(DEFAULT, 10) <= 5_000, "keys that expire soon are held for half of their life"
    for second in range(61, 121):
        demand.sample(60_000 + (second - 60) * 50_000, second)
    assert demand.target(DEFAULT, 600) == 100_000, "no more, however fast"
    demand.sample(3_060_000, 720)
    assert demand.target(DEFAULT, 600) == 32, "at rest again"


def test_the_first_seconds_of_a_flood_are_followed_by_half_and_then_fully() -> None:
    demand = Demand(0)
    demand.sample(1_700, 1)
    assert 10_000 < demand.target(DEFAULT, 600) < 20_000
    for second in range(2, 7):
        demand.sample(second * 1_700, second)
    assert 50_900 <= demand.target(DEFAULT, 600) <= 51_000


def test_a_burst_too_short_to_measure_doubles_the_fetch_until_it_suffices() -> None:
    demand, fetch = Demand(0), 32
    demand.sample(32, 0.001)
    for expected in (64, 128, 256):
        demand.ran_dry(fetch)
        fetch = demand.target(DEFAULT, 600)
        assert fetch == expected
    for expected in (128, 64, 32, 32):
        demand.sufficed()
        assert demand.target(DEFAULT, 600) == expected


def test_a_stock_is_filled_to_its_target_in_pieces_and_refilled_at_half() -> None:
    # A horizon of nothing, so that the rate of this test does not count.
    stock = Stock(CacheSettings(1e-9, 25_000, 100_000, 600.0, True))
    steps, asked = stock.steps(), []
    step, made = next(steps), 0
    while isinstance(step, Fetch):
        asked.append(step.count)
        step = steps.send(Batch([str(made + number) for number in range(step.count)], None))
        made += step.count if isinstance(step, Fetch) else 0
    assert asked == [10_000, 10_000, 5_000] and len(stock.keys) == 25_000
    for left, is_fetched in [(12_501, False), (12_500, True)]:
        while len(stock.keys) > left:
            stock.keys.popleft()
        assert isinstance(steps.send(None), Fetch) is is_fetched


def test_keys_that_end_soon_are_replaced_while_they_are_still_good() -> None:
    stock = Stock(CacheSettings(30.0, 32, 100, 40.0, True))
    steps = stock.steps()
    assert next(steps) == Fetch(32)
    stock._add(["old"] * 32, 40.0, time.monotonic() - 31)
    assert len(stock.keys) == 32
    assert steps.send(None) == Fetch(32)
    steps.send(Batch(["new"] * 32, None))
    assert [stock.take_one(), len(stock.keys)] == ["old", 63]


def test_batches_end_one_by_one() -> None:
    stock = Stock(DEFAULT)
    for name, lifetime in [("a", 0.2), ("b", 50.0)]:
        stock._add([f"{name}{number}" for number in range(10)], lifetime, time.monotonic())
    assert stock.take_one() == "a0"
    time.sleep(0.25)
    assert stock.fresh_until < time.monotonic(), "callers have to look"
    assert stock.take_one() == "b0"
    assert len(stock.keys) == 9 and stock.fresh_until > time.monotonic() + 40
