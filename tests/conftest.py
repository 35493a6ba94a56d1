from collections.abc import Callable
from typing import Any

import uvloop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> dict[str, Callable[[], Any]]:
    """Async tests run on the loop that the daemons run on."""
    return {"uvloop": uvloop.new_event_loop}
