"""The life of a broker, from STARTING to GONE: what its heartbeats ask the controller for.

    state          asks            ends when                                     next state
    STARTING       to be fenced    logs are recovered, metadata is caught up     RECOVERED
    RECOVERED      to serve        the answer says that it is not fenced         RUNNING
    RUNNING        to serve        a stop is requested                           LEAVING
    LEAVING        to shut down    the answer allows it, or time is up           GONE
    GONE           to shut down

A stop may also be requested in STARTING and RECOVERED; the next state is then LEAVING. A broker
that the controller fences stays RUNNING, and its heartbeats keep asking to serve.
"""

from dataclasses import dataclass
from enum import Enum

from ...protocol.control.messages import HeartbeatAnswer

EAGER_MS = 10
"""Milliseconds between heartbeats while the answer may change at any moment."""
LEAVING_MS = 50


class State(Enum):
    """The states of a broker's life."""

    STARTING = "starting"
    RECOVERED = "recovered"
    RUNNING = "running"
    LEAVING = "leaving"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Unfenced:
    """An effect: the broker may lead and join ISRs from now on."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """An effect: the controller considered this broker dead, and elects other leaders."""


@dataclass(frozen=True, slots=True)
class MayStop:
    """An effect: the broker may stop."""


LifecycleEffect = Unfenced | Fenced | MayStop


@dataclass(slots=True)
class Lifecycle:
    """The content of the next heartbeat, and when it is due."""

    heartbeat_interval_ms: int
    state: State = State.STARTING
    is_fenced: bool = True

    @property
    def wants_fence(self) -> bool:
        """True if the broker is not ready to serve."""
        return self.state is State.STARTING

    @property
    def wants_shutdown(self) -> bool:
        """True if the broker stops or has stopped."""
        return self.state in (State.LEAVING, State.GONE)

    @property
    def why_not_in_service(self) -> str | None:
        """A sentence that says why clients find no leader here; None if the broker may lead."""
        match self.state:
            case State.STARTING:
                return "the broker starts: it registers, recovers its logs, reads the metadata"
            case State.RECOVERED:
                return "the broker has started and waits for the controller to unfence it"
            case State.RUNNING if self.is_fenced:
                return "the controller has fenced the broker: it had not heard from it in time"
            case State.LEAVING | State.GONE:
                return "the broker stops"
        return None

    def pause_ms(self) -> int:
        """Milliseconds to wait before the next heartbeat, unless the state changes before."""
        match self.state:
            case State.RECOVERED:
                return EAGER_MS
            case State.LEAVING:
                return LEAVING_MS
            case State.RUNNING if self.is_fenced:
                return min(LEAVING_MS, self.heartbeat_interval_ms)
            case _:
                return self.heartbeat_interval_ms

    def on_recovered(self) -> None:
        """Note that logs are recovered, and that metadata up to our registration is applied."""
        if self.state is State.STARTING:
            self.state = State.RECOVERED

    def on_heartbeat_answered(self, answer: HeartbeatAnswer) -> tuple[LifecycleEffect, ...]:
        """Change the state by the controller's answer; return the effects of the change."""
        was_fenced, self.is_fenced = self.is_fenced, answer.is_fenced
        if self.state is State.LEAVING:
            if not answer.should_shut_down:
                return ()
            self.state = State.GONE
            return (MayStop(),)
        if answer.is_fenced:
            return (Fenced(),) if self.state is State.RUNNING and not was_fenced else ()
        if self.state is State.RECOVERED:
            self.state = State.RUNNING
            return (Unfenced(),)
        return (Unfenced(),) if was_fenced and self.state is State.RUNNING else ()

    def on_stop_requested(self) -> None:
        """Ask from now on to shut down, so that the controller moves leadership away."""
        if self.state is not State.GONE:
            self.state = State.LEAVING

    def on_out_of_time(self) -> tuple[LifecycleEffect, ...]:
        """Stop without the controller's permission, as time is up; our session then expires."""
        if self.state is State.LEAVING:
            self.state = State.GONE
            return (MayStop(),)
        return ()
