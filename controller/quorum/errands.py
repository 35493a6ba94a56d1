"""Carries out effects of the quorum's state machine: saves, requests, answers; and keeps its timer.

Effects are carried out in their order, and a `SaveState` holds up all that follow it, whichever
input they came from: no message leaves this node before the state behind it is stable. Effects on
the log, and changes of the leader, are passed on to `RaftQuorum`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, assert_never

from ...protocol.control.messages import (
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    ROLE_CONTROLLER,
    Hello,
)
from ...protocol.control.quorum_messages import QuorumRequest
from ...protocol.errors import ApiError, ErrorCode
from ...runtime.errors import StorageError
from ...runtime.runtime import Runtime
from ...runtime.waiting import end_tasks
from ...storage.files import Files
from . import effects as e
from .log_writer import is_full
from .node import WRITE_AGAIN_MS, QuorumNode
from .peers import Peer, PeerEvents, Peering
from .quorum_state import QuorumState, write_quorum_state

NOTED_MAX: Final = 1000
"""The most warnings remembered as logged; bounded, because a sender can invent ids."""

log = logging.getLogger(__name__)


class Errands:
    """The driver of one state machine: feeds it its inputs and carries out its effects."""

    def __init__(
        self,
        runtime: Runtime,
        node: QuorumNode,
        data_directory: str,
        carry_out: Callable[[e.LogEffect], None],
    ) -> None:
        """Hand the effects on the log and the leader to `carry_out`, `Failed` among them."""
        self.peers: dict[int, Peer] = {}
        self.is_over = False
        """True if no effect is carried out any more."""
        self._runtime = runtime
        self._node = node
        self._data_directory = data_directory
        self._hand_on = carry_out
        self._effects: deque[e.QuorumEffect] = deque()
        self._is_working = self._is_saving = False
        self._tickets: dict[int, asyncio.Future[Any]] = {}
        self._next_ticket = 0
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._noted: dict[str, None] = {}

    def start(self, peering: Peering) -> None:
        """Connect to the other voters and start the machine."""
        node = self._node
        events = PeerEvents(
            self._hello,
            lambda voter_id: self.take(node.on_peer_lost(voter_id)),
            lambda voter_id: self.take(node.on_peer_refused(voter_id, self.now_ms())),
        )
        timeout_ms = 2 * node.standing.settings.fetch_timeout_ms
        for voter_id in node.standing.voters.ids:
            if voter_id != node.standing.me:
                peer = Peer(self._runtime, voter_id, peering, events, timeout_ms)
                self.peers[voter_id] = peer
                peer.start()
        self.take(node.on_started(self.now_ms()))

    async def close(self) -> None:
        """Cancel the timer and the tasks, and close the connections."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        await end_tasks(self._tasks)
        for peer in self.peers.values():
            await peer.close()

    def now_ms(self) -> int:
        """Return the monotonic time in ms, which is the time of all the machine's inputs."""
        return self._runtime.monotonic_ms()

    def spawn(self, coro: Coroutine[Any, Any, None], name: str) -> None:
        """Start a task that `close` ends."""
        task = self._runtime.spawn(coro, name)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _hello(self) -> Hello:
        me = self._node.standing.settings.me
        return Hello(
            cluster_id=self._node.standing.cluster_id,
            min_version=PROTOCOL_VERSION_MIN,
            max_version=PROTOCOL_VERSION_MAX,
            node_id=me.voter_id,
            role=ROLE_CONTROLLER,
            incarnation_id=me.directory_id,
        )

    async def answer(self, request: QuorumRequest) -> Any:
        """Answer another controller's request, once the machine has decided.

        Raise ApiError NOT_CONTROLLER if this controller is stopping.
        """
        if self.is_over:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller stops")
        ticket, self._next_ticket = self._next_ticket, self._next_ticket + 1
        future = self._tickets[ticket] = asyncio.get_running_loop().create_future()
        try:
            self.take(self._node.on_request(ticket, request, self.now_ms()))
            return await future
        finally:
            self._tickets.pop(ticket, None)

    def give(self, ticket: int, answer: object) -> None:
        """Answer the request of this ticket, if its caller still waits."""
        future = self._tickets.pop(ticket, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def take(self, effects: Sequence[e.QuorumEffect]) -> None:
        """Queue the effects behind earlier ones, and carry them out unless a save holds them up."""
        self._effects.extend(effects)
        self._work()
        self._set_timer()

    def _work(self) -> None:
        if self._is_working:
            return
        self._is_working = True
        try:
            while self._effects and not self._is_saving and not self.is_over:
                self._carry_out(self._effects.popleft())
        finally:
            self._is_working = False

    def _carry_out(self, effect: e.QuorumEffect) -> None:
        if not isinstance(effect, e.ErrandEffect):
            self._hand_on(effect)
            return
        match effect:
            case e.SaveState(state):
                self._is_saving = True
                self.spawn(self._save(state), "quorum state")
            case e.Send(to, request):
                self.spawn(self._ask(to, request), f"{type(request).__name__} to {to}")
            case e.Answer(ticket, answer):
                self.give(ticket, answer)
            case e.Noted(key, text):
                if key not in self._noted:
                    if len(self._noted) >= NOTED_MAX:
                        del self._noted[next(iter(self._noted))]
                    self._noted[key] = None
                    log.warning("%s", text)
            case _:
                assert_never(effect)

    async def _save(self, state: QuorumState) -> None:
        while True:
            # With `Files` of its own: a failure of the log's files must not fail this write.
            files = Files(self._runtime.fs, self._data_directory.rpartition("/")[0])
            try:
                await write_quorum_state(files, self._data_directory, state)
                break
            except StorageError as error:
                if not is_full(error):
                    self._hand_on(e.Failed(f"the quorum's state cannot be saved: {error}"))
                    return
                log.error("no room for the quorum's state, and no part in it until there is")
            await asyncio.sleep(WRITE_AGAIN_MS / 1000)
        self._is_saving = False
        self._work()
        self._set_timer()

    async def _ask(self, to: int, request: Any) -> None:
        timeout_ms = 2 * self._node.standing.settings.fetch_timeout_ms
        try:
            answer = await self.peers[to].call(request, timeout_ms=timeout_ms)
        except ApiError as error:
            log.debug("%s to %d: %s", type(request).__name__, to, error)
            self.take(self._node.on_unanswered(to, request, self.now_ms()))
        else:
            self.take(self._node.on_answered(to, request, answer, self.now_ms()))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self._node.next_deadline_ms()
        if due_ms is not None and not self.is_over:
            delay_ms = max(0, due_ms - self.now_ms())
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.take(self._node.on_deadline(self.now_ms()))
