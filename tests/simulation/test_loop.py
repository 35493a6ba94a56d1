"""The loop: virtual time, order, and what it means to die or to be paused."""

import asyncio
import itertools
from typing import Any

import pytest

from .loop import SimulationError
from .world import SimRuntime, Violation, World


def run(world: World, main: Any, limit: float = 1e6) -> Any:
    return world.run(main, limit=limit)


def test_a_year_of_sleep_takes_no_time() -> None:
    world = World(1)

    async def main() -> float:
        await asyncio.sleep(365 * 24 * 3600.0)
        return world.now()

    assert run(world, main(), limit=1e9) == 365 * 24 * 3600.0


def test_equal_deadlines_fire_in_the_order_they_were_set() -> None:
    world = World(1)
    seen: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + 1
        for number in range(200):
            loop.call_at(when, seen.append, number)
        await asyncio.sleep(2)

    run(world, main())
    assert seen == list(range(200))


def test_time_moves_even_when_the_clock_reads_high() -> None:
    world = World(1)

    async def main() -> int:
        await asyncio.sleep(1e8)
        count = 0
        for _ in range(1000):
            await asyncio.sleep(0.0000001)
            count += 1
        return count

    assert run(world, main(), limit=1e9) == 1000


def test_a_killed_process_runs_no_finally_and_none_of_its_handles() -> None:
    world = World(1)
    ran: list[str] = []

    async def victim(runtime: SimRuntime) -> None:
        asyncio.get_running_loop().call_later(3, ran.append, "timer")
        try:
            await asyncio.sleep(5)
        finally:
            ran.append("finally")

    async def main() -> None:
        process = world.start(world.add_host("a"), "victim", victim)
        await asyncio.sleep(1)
        world.kill(process)
        await asyncio.sleep(10)
        assert ran == []

    run(world, main())


def test_a_paused_process_does_its_work_when_it_is_resumed() -> None:
    world = World(1)
    ran: list[float] = []

    async def sleeper(runtime: SimRuntime) -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            ran.append(world.now())

    async def main() -> None:
        process = world.start(world.add_host("a"), "sleeper", sleeper)
        await asyncio.sleep(1.5)
        world.pause(process)
        await asyncio.sleep(10)
        assert ran == [1.0]
        world.resume(process)
        await asyncio.sleep(5)

    run(world, main())
    assert ran == [1.0, 11.5, 12.5]


def test_an_exception_that_leaves_a_supervised_task_is_a_violation() -> None:
    world = World(1)

    async def failing() -> None:
        raise ValueError("planted")

    async def broken(runtime: SimRuntime) -> None:
        runtime.spawn(failing(), "worker")
        await asyncio.sleep(5)

    async def main() -> None:
        world.start(world.add_host("a"), "broken", broken)
        await asyncio.sleep(10)

    with pytest.raises(Violation, match=r"broken: task worker failed: ValueError\(planted\)"):
        run(world, main())


def test_an_exception_in_a_callback_is_a_violation() -> None:
    world = World(1)

    async def broken(runtime: SimRuntime) -> None:
        asyncio.get_running_loop().call_later(1, [].pop)
        await asyncio.sleep(5)

    async def main() -> None:
        world.start(world.add_host("a"), "broken", broken)
        await asyncio.sleep(10)

    with pytest.raises(Violation, match="IndexError"):
        run(world, main())


def test_waiting_for_nothing_is_an_error_and_not_a_hang() -> None:
    world = World(1)
    world.loop.call_later = lambda *args, **options: None  # type: ignore[assignment]

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationError, match="nothing is left to happen"):
        run(world, main())


def test_a_livelock_is_an_error_and_not_a_hang() -> None:
    async def main() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(SimulationError, match="livelock"):
        run(World(1), main())


def test_what_would_leave_the_simulation_is_refused() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(SimulationError):
            await loop.run_in_executor(None, print)
        with pytest.raises(SimulationError):
            loop.add_signal_handler(15, print)
        with pytest.raises(SimulationError):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(SimulationError):
            await asyncio.to_thread(print)

    run(World(1), main())
