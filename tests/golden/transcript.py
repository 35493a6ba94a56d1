"""What scripts share: steps of commands, `----` and what happened; a step may be comment alone."""

from typing import Protocol


class Stage(Protocol):
    """Carries out the commands of one script."""

    def run(self, line: str) -> list[str]: ...


def play(script: str, stage: Stage) -> str:
    """The script with what happens now."""
    told = []
    for step in script.strip().split("\n\n"):
        lines = [line for line in step.split("----")[0].strip().splitlines() if line]
        commands = [line for line in lines if not line.startswith("#")]
        happened = [said for command in commands for said in stage.run(command)]
        told.append("\n".join([*lines, "----", *happened] if commands else lines))
    return "\n\n".join(told) + "\n"
