"""The `minikafka` command: a table of commands, each imported when it is called.

An error is printed as one line on standard error. The exit code is 2 for wrong arguments or
settings, and 1 for other failures. A command or group called without the arguments that it needs
prints its help.
"""

import importlib
import sys

import click
from click.shell_completion import CompletionItem

from ..runtime.errors import ConfigError, MinikafkaError
from ..runtime.spelling import did_you_mean

SECTIONS = {
    "Running": {
        "up": "Run a local cluster in the foreground.",
        "host": "Run the brokers of one host, one for each core.",
        "server-start": "Start one broker or controller, here or in the background.",
        "server-stop": "Stop the daemons of this machine.",
        "console": "Show a cluster in the browser.",
        "rest": "Serve Confluent's REST API.",
        "generate": "Write what a cluster is watched and run with: Prometheus, systemd, Helm, ...",
    },
    "Topics and records": {
        "topics": "Create, list, describe, alter and delete topics.",
        "configs": "Describe and change settings of topics and brokers.",
        "console-producer": "Write lines of standard input to a topic.",
        "console-consumer": "Print the records of topics.",
        "get-offsets": "Print where partitions begin and end, or are at a time.",
        "delete-records": "Delete records before offsets.",
        "delay": "List, cancel and reschedule what waits in delay topics.",
        "forward": "Forward again what a target has lost; tell how far forwarding is.",
        "dlq": "List dead letters, requeue them, discard them.",
        "trace": "Tell the life of one record.",
    },
    "Data in and out": {
        "connect": "List, create, change and watch the connectors of running workers.",
        "connect-standalone": "Run connectors in one worker, without a group.",
        "connect-distributed": "Run a worker of a group that shares connectors.",
        "mirror": "Mirror topics and groups between clusters, as MirrorMaker 2.",
    },
    "Groups and transactions": {
        "consumer-groups": "List, describe, delete and reset groups of consumers.",
        "groups": "List groups of every type.",
        "transactions": "List, describe and abort transactions.",
        "streams-application-reset": "Let an application of Kafka Streams begin anew.",
    },
    "The cluster": {
        "doctor": "Examine a cluster: what is wrong, where, and what to do.",
        "cluster": "Print a cluster's id and endpoints, or unregister a broker.",
        "broker-api-versions": "Print which APIs brokers serve, in which versions.",
        "metadata-quorum": "Describe the quorum of controllers.",
        "features": "Describe and change the levels of features.",
        "audit": "Tell who changed what in a cluster, and check that record.",
        "acls": "Say who may do what, and list it.",
        "delegation-tokens": "Make tokens that log in as a user, renew and end them.",
        "client-metrics": "Ask clients to push their metrics to the brokers.",
    },
    "Replicas and disks": {
        "plan": "Plan a change of replicas: its difference, its price, and the way back.",
        "reassign-partitions": "Move copies of partitions to other brokers.",
        "leader-election": "Elect preferred leaders, or unclean ones where none is left.",
        "log-dirs": "Describe the directories of brokers.",
        "replica-verification": "Compare the replicas of partitions.",
        "dump-log": "Print log segments, indexes, snapshots and checkpoints from disk.",
    },
    "Measuring and testing": {
        "producer-perf-test": "Measure producing.",
        "consumer-perf-test": "Measure consuming.",
        "e2e-latency": "Measure the time from a producer to a consumer.",
        "verifiable-producer": "Write numbers; print what became of each as JSON.",
        "verifiable-consumer": "Read a topic in a group; print what happens as JSON.",
    },
    "This command": {
        "completion": "Print a script that completes this command in a shell.",
    },
}
"""The commands by section, each with its line of help, in the order in which help lists them."""
COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}
"""The line of help of each command. A command's module and function have the command's name."""
ELSEWHERE = {
    "up": "minikafka.deploy.up",
    "host": "minikafka.deploy.host",
    "server-start": "minikafka.deploy.server_start",
    "server-stop": "minikafka.deploy.server_stop",
    "completion": "minikafka.deploy.completion",
    "plan": "minikafka.deploy.plan.command",
    "connect": "minikafka.connect.cli.connect",
    "connect-standalone": "minikafka.connect.cli.connect_standalone",
    "connect-distributed": "minikafka.connect.cli.connect_distributed",
    "console": "minikafka.web.console.command",
    "rest": "minikafka.web.rest.command",
    "mirror": "minikafka.connect.mirror.command",
    "doctor": "minikafka.deploy.doctor.command",
    "generate": "minikafka.deploy.generate.command",
}
"""By command, its module, if that is not in `minikafka.client.cli`."""


class LazyGroup(click.Group):
    """A group that imports a command only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command and return the command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = ELSEWHERE.get(cmd_name, f"minikafka.client.cli.{name}")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called.

        Raise UsageError with the nearest name if there is none.
        """
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}{did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, section by section, importing none."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the name of a command from the table, importing none."""
        return [
            CompletionItem(name, help=text)
            for name, text in COMMANDS.items()
            if name.startswith(incomplete)
        ] + click.Command.shell_complete(self, ctx, incomplete)


def _show_version(context: click.Context) -> None:
    from ..protocol.records.record_backend import NAME
    from ..runtime.version import VERSION

    click.echo(f"minikafka, version {VERSION}, record codec: {NAME}")
    context.exit()


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, wanted: _show_version(context) if wanted else None,
    help="Show the version, and which record codec is in use: compiled or python.",
)
def minikafka() -> None:
    """minikafka: a Kafka-compatible, replicated log cluster.

    \b
    minikafka up                                    start a cluster here
    minikafka topics --bootstrap-server localhost:9092 --create --topic t
    minikafka COMMAND --help                        flags and examples
    """


def main() -> None:
    """Run the command line; exit with its code."""
    try:
        status = minikafka.main(prog_name="minikafka", standalone_mode=False)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.UsageError as error:
        name = error.ctx.command_path if error.ctx is not None else "minikafka"
        sys.exit(_complain(f"{name}: {error.format_message().rstrip('.')} (see {name} --help)", 2))
    except click.ClickException as error:
        sys.exit(_complain(error.format_message(), error.exit_code))
    except MinikafkaError as error:
        sys.exit(_complain(f"minikafka: {error}", 2 if isinstance(error, ConfigError) else 1))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output is gone, as in `... | head`. Python would complain at exit.
        sys.stderr.close()
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


def _complain(message: str, code: int) -> int:
    print(" ".join(message.split()), file=sys.stderr)
    return code
