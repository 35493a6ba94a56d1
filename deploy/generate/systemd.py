"""systemd units for the daemons of a cluster, and the other files that each host needs.

The units are templates: the instance is the node id, as in `minikafka-broker@1`. Pure.
Source: systemd.service(5), systemd.exec(5).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from .. import control_key
from .hosts import Members, Role

UNIT: Final = """\
[Unit]
Description=minikafka {role} %i
Documentation={page}
Wants=network-online.target
After=network-online.target
# A daemon that fails again and again is left alone, so that somebody looks.
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
# The daemon reports when it serves. Before that it may have to recover its logs, however long
# that takes.
Type=notify
NotifyAccess=main
ExecStart={program} {config}/{role}-%i.properties
TimeoutStartSec=infinity
# An event loop that reports no sign of life for so long is ended and started again.
WatchdogSec=60
Restart=on-failure
RestartSec=1
# Exit code 2 is a wrong configuration: another start would not help.
RestartPreventExitStatus=2
# A clean stop hands leadership over and flushes; the daemon itself gives up after 60 seconds.
TimeoutStopSec=90
KillMode=mixed
User={user}
Group={user}
UMask=0027
WorkingDirectory={data}
# Each segment of a log, its indexes and each connection take a descriptor.
LimitNOFILE=1048576
# The kernel ends others first when memory is short.
OOMScoreAdjust=-500

# All that the daemon needs is its data, its properties and the network.
ReadWritePaths={data}
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""
INSTALL: Final = """\
#!/bin/sh
# Installs the daemons of {host} and starts them. Run it as root on that host, beside its files.
set -eu
cd "$(dirname "$0")"
test -x {prefix}/bin/minikafka-broker || {{
    echo "{prefix}/bin/minikafka-broker is missing: python3 -m venv {prefix} &&" \\
        "{prefix}/bin/pip install minikafka" >&2
    exit 1
}}
id {user} >/dev/null 2>&1 || useradd --system --home-dir {data} --shell /usr/sbin/nologin {user}
install -d -m 0750 -o {user} -g {user} {data}
install -d -m 0755 {config}
install -m 0640 -g {user} ./*.properties ./{key} {config}/
install -m 0644 ./*.service {units}/
systemctl daemon-reload
# A new cluster's daemons are active once most controllers run, so this host waits for no other.
systemctl enable --now --no-block {instances}
"""
UNITS: Final = "/etc/systemd/system"


@dataclass(frozen=True, slots=True)
class Installation:
    """The directories of program, settings and data on each host, and the user of the daemons."""

    prefix: PurePosixPath
    config: PurePosixPath
    data: PurePosixPath
    user: str
    page: str
    """The URL that the units name as their documentation."""


def unit(role: Role, there: Installation) -> str:
    """Return the text of the template unit for this kind of daemon."""
    is_home = PurePosixPath("/home") in there.data.parents or "root" in there.data.parts[1:2]
    return UNIT.format(
        role=role,
        program=there.prefix / "bin" / f"minikafka-{role}",
        config=there.config,
        data=there.data,
        user=there.user,
        page=there.page,
        home="no" if is_home else "yes",
    )


def files(members: Members, there: Installation, key: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield each file and its text: a folder per host, with what that host needs.

    `key` is the text of the file of the cluster's key, of which each host gets a copy.
    """
    for host, daemons in members.hosts.items():
        folder = PurePosixPath(host.replace(":", "-"))
        for role in dict.fromkeys(member.role for member in daemons):
            yield folder / f"minikafka-{role}@.service", unit(role, there)
        for member in daemons:
            properties = members.properties(member)
            properties["control.psk.file"] = str(there.config / control_key.NAME)
            text = "".join(f"{name}={value}\n" for name, value in properties.items())
            yield folder / f"{member.name}.properties", text
        yield folder / control_key.NAME, key
        instances = " ".join(f"minikafka-{each.role}@{each.node_id}" for each in daemons)
        yield (
            folder / "install.sh",
            INSTALL.format(
                host=host,
                prefix=there.prefix,
                config=there.config,
                data=there.data,
                user=there.user,
                key=control_key.NAME,
                units=UNITS,
                instances=instances,
            ),
        )
