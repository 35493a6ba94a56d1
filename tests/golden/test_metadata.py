"""Scripts and transcripts of the metadata machine, to be read and reviewed as prose.

Each `.txt` holds steps: commands, `----`, the records decided and what was answered, an empty
line. `--rewrite` writes down what happens now; the diff is the review.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import PartitionState, changed
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.elect_leaders import ElectionType

from ..controller.machine import Machine
from .transcript import play

SCRIPTS = sorted((Path(__file__).parent / "metadata").glob("*.txt"))


def words_of(options: tuple[str, ...]) -> dict[str, str]:
    return dict(option.split("=", 1) for option in options)


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


class Stage:
    """Carries out one script's commands on one machine."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.incarnations: dict[int, int] = {}

    def run(self, line: str) -> list[str]:
        name, *options = line.split()
        command: Callable[..., list[str] | None] = getattr(self, f"do_{name}")
        states = dict(self.machine.image.partitions())
        before = len(self.machine.log)
        said = command(*options) or []
        decided = [self.tell(record, states) for record in self.machine.log[before:]]
        return [*decided, *said] or ["nothing changes"]

    # Commands.

    def do_cluster(self, brokers: str, *options: str) -> list[str]:
        """So many brokers, with eligible leaders: min_isr=N; nobody reports log ends unasked."""
        given = words_of(options)
        self.machine = Machine(int(brokers), elr=True, min_isr=int(given.get("min_isr", "2")))
        self.machine.are_reporting = False
        self.incarnations = dict.fromkeys(range(1, int(brokers) + 1), 1)
        return [f"brokers 1 to {brokers} serve, {len(self.machine.log)} records"]

    def do_register(self, broker: str, *options: str) -> list[str]:
        """[new] [clean] [directory=N] [rack=R]: `new` is another start of the process."""
        broker_id = int(broker)
        given = words_of(tuple(each for each in options if "=" in each))
        if "new" in options or broker_id not in self.incarnations:
            self.incarnations[broker_id] = self.incarnations.get(broker_id, 0) + 1
        answer = self.machine.register(
            broker_id,
            incarnation=self.incarnations[broker_id],
            directories=[int(given.get("directory", "0"))],
            rack=given.get("rack"),
            clean="clean" in options,
        )
        if answer.error:
            return [f"refused: {ErrorCode(answer.error).name}: {answer.message}"]
        return [f"broker {broker_id} has epoch {answer.broker_epoch}"]

    def do_beat(self, broker: str, *options: str) -> list[str]:
        """[fence] [shutdown] [behind] [others=OFFSET]"""
        given = words_of(tuple(each for each in options if "=" in each))
        epoch = self.machine.broker(int(broker)).broker_epoch
        answer = self.machine.beat(
            int(broker),
            want_fence="fence" in options,
            want_shutdown="shutdown" in options,
            metadata_offset=epoch - 1 if "behind" in options else epoch,
            applied_by_others=int(given["others"]) if "others" in given else None,
        )
        if answer.error:
            return [f"refused: {ErrorCode(answer.error).name}: {answer.message}"]
        told = "fenced" if answer.is_fenced else "unfenced"
        caught_up = "" if answer.is_caught_up else ", not caught up"
        leave = ", may stop" if answer.should_shut_down else ""
        return [f"broker {broker} is told: {told}{caught_up}{leave}"]

    def do_up(self, *brokers: str) -> list[str]:
        """Register and unfence; `clean` as the last word: after a clean stop."""
        said, options = [], [each for each in brokers if not each.isdigit()]
        for broker in brokers[: len(brokers) - len(options)]:
            said += [*self.do_register(broker, "new", *options), *self.do_beat(broker)]
        return said

    def do_report(self, *ends: str) -> None:
        """BROKER=EPOCH:OFFSET ...: brokers tell where their logs end."""
        for end in ends:
            broker, _, where = end.partition("=")
            epoch, _, offset = where.partition(":")
            self.machine.ends[int(broker)] = (int(epoch), int(offset))
        self.machine.report(*(int(end.partition("=")[0]) for end in ends))

    def do_wait(self, milliseconds: str) -> None:
        self.machine.now_ms += int(milliseconds)
        self.machine.elect_longest()

    def do_elect(self, how: str, name: str) -> list[str]:
        """preferred or unclean, partition 0 of the topic."""
        asked = self.machine.elect(ElectionType[how.upper()], (name, 0))
        return [f"answered: {code.name}" for code in asked.values()]

    def do_reassign(self, name: str, replicas: str = "") -> list[str]:
        """To these brokers; to nowhere: cancel."""
        target = numbers(replicas) or None
        return [f"answered: {self.machine.reassign((name, 0), target).name}"]

    def do_lose_disk(self, broker: str, name: str) -> None:
        self.machine.lose_directory(int(broker), (name, 0))

    def do_lose(self, *brokers: str) -> None:
        """Their leases run out."""
        self.machine.fence(*(int(each) for each in brokers))

    def do_create(self, name: str, *options: str) -> list[str]:
        """replicas=1,2,3[;2,3,1] or partitions=N factor=N"""
        given = words_of(options)
        result = self.machine.create(
            name,
            int(given.get("partitions", "-1")),
            int(given.get("factor", "-1")),
            replicas=[numbers(each) for each in given.get("replicas", "").split(";") if each],
        )
        return self.result_of(result)

    def do_delete(self, *names: str) -> list[str]:
        return [ErrorCode(code).name for code in self.machine.delete(*names) if code]

    def do_grow(self, name: str, count: str) -> list[str]:
        return self.result_of(self.machine.grow(name, int(count)))

    def do_alter(self, name: str, isr: str, *options: str) -> list[str]:
        """The leader of partition 0 proposes isr=..; [sender=N] [leader_epoch=N] ..."""
        given = {key: int(value) for key, value in words_of(options).items()}
        answer = self.machine.alter(name, numbers(isr.removeprefix("isr=")), **given)  # type: ignore[arg-type]
        if answer.error:
            return [f"refused: {ErrorCode(answer.error).name}: {answer.message}"]
        return [f"agreed: isr {list(answer.isr)} partition epoch {answer.partition_epoch}"]

    def do_config(self, name: str, *options: str) -> list[str]:
        """KEY=VALUE of a topic, or of every broker with the name `brokers`."""
        given: dict[str, Any] = {
            key.replace(".", "_"): value for key, value in words_of(options).items()
        }
        if name == "brokers":
            return self.result_of(self.machine.configure_all_brokers(**given))
        return self.result_of(self.machine.configure(name, **given))

    def do_show(self) -> list[str]:
        lines = []
        for topic in self.machine.image.topics.values():
            for index, state in topic.partitions.items():
                lines.append(f"{topic.name}-{index} {self.shown(state)}")
        return lines

    # What is told of it.

    def result_of(self, result: Any) -> list[str]:
        if not result.error_code:
            return []
        return [f"refused: {ErrorCode(result.error_code).name}: {result.error_message}"]

    def shown(self, state: PartitionState) -> str:
        text = f"replicas {list(state.replicas)} isr {list(state.isr)} leader {state.leader}"
        text = f"{text} epochs {state.leader_epoch}/{state.partition_epoch}"
        for name in ("elr", "last_known_elr", "adding", "removing", "offline"):
            if getattr(state, name):
                text = f"{text} {name} {list(getattr(state, name))}"
        text = f"{text} electing" if state.electing else text
        return f"{text} recovering" if state.recovering else text

    def tell(self, record: r.MetadataRecord, states: dict[Any, PartitionState]) -> str:
        image = self.machine.image
        match record:
            case r.RegisterBrokerRecord(broker_id=broker_id):
                return f"broker {broker_id} registered"
            case r.BrokerChangeRecord(broker_id=broker_id, fenced=fenced):
                if fenced is None:
                    return f"broker {broker_id} in controlled shutdown"
                return f"broker {broker_id} {'fenced' if fenced else 'unfenced'}"
            case r.TopicRecord(name=name):
                return f"topic {name}"
            case r.PartitionRecord(topic_id=topic_id, partition=index, replicas=replicas):
                where = f"{image.topics[topic_id].name}-{index}"
                isr, leader = list(record.isr), record.leader
                states[topic_id, index] = PartitionState(replicas, record.isr, leader)
                return f"{where} replicas {list(replicas)} isr {isr} leader {leader}"
            case r.PartitionChangeRecord(topic_id=topic_id, partition=index):
                old, topic = states[topic_id, index], image.topics[topic_id]
                states[topic_id, index] = changed(old, record)
                parts = [f"{topic.name}-{index}"]
                for name in ("replicas", "isr", "elr", "adding", "removing", "offline"):
                    if (news := getattr(record, name)) is not None:
                        parts.append(f"{name} {list(getattr(old, name))} -> {list(news)}")
                if record.last_known_elr:
                    parts.append(f"last led by {record.last_known_elr[0]}")
                if record.leader is not None:
                    epoch = old.leader_epoch + 1
                    parts.append(f"leader {old.leader} -> {record.leader} in epoch {epoch}")
                if record.directories:
                    parts.append("its directories are away")
                if record.electing:
                    parts.append("asks how long the logs are")
                if record.recovering is not None:
                    parts.append("recovering" if record.recovering else "recovered")
                return " ".join(parts)
            case r.ConfigRecord(resource_name=name, key=key, value=value):
                return f"config {name or 'brokers'} {key} = {value}"
            case _:
                return type(record).__name__


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_machine_does_what_the_transcript_says(
    path: Path, request: pytest.FixtureRequest
) -> None:
    script = path.read_text()
    transcript = play(script, Stage())
    if request.config.getoption("--rewrite"):
        path.write_text(transcript)
    else:
        assert transcript == script


def test_there_are_transcripts() -> None:
    assert len(SCRIPTS) >= 4
