"""`minikafka completion`: print a script that lets a shell complete this command's words."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_MINIKAFKA_COMPLETE"
"""The environment variable by which the script asks for completions, as click names it."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that lets bash, zsh or fish complete commands, flags and their values.

    \b
    minikafka completion bash > ~/.local/share/bash-completion/completions/minikafka
    minikafka completion zsh >> ~/.zshrc
    minikafka completion fish > ~/.config/fish/completions/minikafka.fish
    """
    complete = get_completion_class(shell)
    assert complete is not None
    root = click.get_current_context().find_root()
    print(complete(root.command, {}, "minikafka", VARIABLE).source(), end="")
