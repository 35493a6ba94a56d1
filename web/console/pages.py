"""Renders screens: the templates, the functions they may call, and the live part of a page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .views import words
from .views.changes import shell_line

NAVIGATION: Final = (
    ("/", "Overview"),
    ("/brokers", "Brokers"),
    ("/topics", "Topics"),
    ("/groups", "Groups"),
    ("/transactions", "Transactions"),
    ("/configs", "Configs"),
    ("/quorum", "Quorum"),
    ("/elections", "Elections"),
    ("/reassignments", "Reassignments"),
)
"""The screens in the navigation bar; Alt and the number of an entry open it."""


@dataclass(frozen=True, slots=True)
class Screen:
    """One screen as data: its template and its view, before it is rendered."""

    template: str
    title: str
    view: object
    refresh_ms: int = 0
    """Milliseconds between two updates of the live part; 0 if the screen is not updated."""
    status: int = 200
    at_ms: int | None = None
    """When the cluster was asked, ms since the epoch; None if it was asked just now."""
    here: str = "/"
    """The path of the entry in the navigation bar that is marked as the current one."""
    more: Mapping[str, object] = field(default_factory=dict)


class Pages:
    """The templates of one console."""

    def __init__(self, bootstrap: str, token: str, *, allow_changes: bool) -> None:
        self._bootstrap = bootstrap
        self._environment = Environment(
            loader=PackageLoader("minikafka.web.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_shown,
        )
        self._environment.filters.update(
            number=words.number,
            size=words.size,
            duration=words.duration,
            moment=words.moment,
            clock=words.clock,
            plural=words.plural,
            level=lambda one: one.value,
            path=lambda name: quote(str(name), safe=""),
        )
        self._environment.globals.update(
            navigation=NAVIGATION,
            token=token,
            allow_changes=allow_changes,
            command=self.command,
            query=lambda **given: urlencode({k: v for k, v in given.items() if v not in ("", 0)}),
        )
        # A block is rendered by itself, too, and does not see what its template imports.
        parts = self._environment.get_template("parts.html").module
        self._environment.globals.update(
            {name: one for name, one in vars(parts).items() if not name.startswith("_")}
        )

    def page(self, screen: Screen, **more: object) -> str:
        """Render the whole page."""
        return self._environment.get_template(screen.template).render(_names(screen, more))

    def live(self, screen: Screen, **more: object) -> str:
        """Render the live part of the page."""
        template = self._environment.get_template(screen.template)
        context = template.new_context(_names(screen, more))
        return "".join(template.blocks["live"](context))

    def part(self, template: str, **names: object) -> str:
        """Render a template that is only a part of a page."""
        return self._environment.get_template(template).render(**names)

    def command(self, *arguments: object) -> str:
        """Write the command that does the same as the screen, to be pasted into a shell."""
        return shell_line(self._bootstrap, tuple(map(str, arguments)))


def _names(screen: Screen, more: Mapping[str, object]) -> dict[str, Any]:
    names = {"screen": screen, "view": screen.view, **screen.more, **more}
    return names if screen.at_ms is None else {**names, "at_ms": screen.at_ms}


def _shown(value: object) -> object:
    """Make invisible characters of a text visible; leave markup and other values as they are."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.visible(value)
    return value
