"""Commit groups: which transactional ids belong to one group, and how a group may be named.

Pure. A group's ids are `{group}/{partition}/{generation}.{attempt}`. The coordinator of the group's
name coordinates all of them, so that it can decide about them together. The generation makes the
ids of two runs differ, so that one run does not fence the other; no code reads it from an id.
"""

import re
from typing import Final

_GROUP: Final = r"[A-Za-z0-9._:-]{1,249}"
_NAME: Final = re.compile(_GROUP)
_MEMBER: Final = re.compile(rf"({_GROUP})/[0-9]+/[0-9]+\.[0-9]+")
NAME_RULE: Final = "1 to 249 letters, digits, dots, underscores, colons and hyphens"
RUN_MAX: Final = 200
NO_BATCH: Final = -1


def is_group_name(name: str) -> bool:
    """True if `name` is a valid name of a commit group; NAME_RULE says the rule in words."""
    return _NAME.fullmatch(name) is not None


def member_id(group: str, partition: int, generation: int, attempt: int) -> str:
    """Return the transactional id of one attempt at one partition, in the run `generation`."""
    return f"{group}/{partition}/{generation}.{attempt}"


def group_of(transactional_id: str) -> str | None:
    """Return the commit group that an id belongs to; None for an ordinary transactional id."""
    if "/" not in transactional_id:
        return None
    found = _MEMBER.fullmatch(transactional_id)
    return None if found is None else found[1]


def home_of(transactional_id: str) -> str:
    """Return the name by which an id's coordinator is chosen: its group's name, or the id."""
    return group_of(transactional_id) or transactional_id
