"""`$(VAR)` references, as the kubelet expands them before an engine sees its command line.

Rules (k8s.io/kubernetes third_party/forked/golang/expansion): `$(NAME)` is replaced by the variable's value, once; `$$` stands for a single
dollar sign; a name nobody defined stays as it is written. A variable's own value may refer to variables defined before it. Only the role's
literal variables are known here: what the operator or a field reference adds at run time is not, so an undefined name is *unresolved*,
not wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from api.objects import EnvVar


class Expanded(msgspec.Struct, frozen=True):
    """A text after expansion, and the names in it that nobody here defines."""

    text: str
    unresolved: tuple[str, ...] = ()


# What the operator itself adds to every member's environment (admission facts 3.5): a reference to one of these is in order.
PROVIDED: Final = frozenset({"GPUSTACK_REPLICA_LEADER_ADDRESS", "GPUSTACK_REPLICA_SIZE", "GPUSTACK_MEMBER_INDEX"})

# Expansion multiplies: a handful of variables that name each other twice would fill the memory. No real command line comes near this.
LIMIT: Final = 1 << 18


def expand(text: str, variables: Mapping[str, Expanded], limit: int = LIMIT) -> Expanded:
    """Expand every reference once.

    What a variable's own value left unresolved is unresolved here too. A text that would grow beyond `limit` characters stays as it is
    written, its references unresolved.
    """
    if "$" not in text:
        return Expanded(text)
    parts: list[str] = []
    unresolved: list[str] = []
    room = limit
    at = 0
    end = len(text)
    while (dollar := text.find("$", at)) != -1 and dollar + 1 < end:
        parts.append(text[at:dollar])
        follower = text[dollar + 1]
        close = text.find(")", dollar + 2) if follower == "(" else -1
        if close == -1:
            # No reference: "$$" is an escaped dollar, an unclosed "$(" stays (and nothing behind it can close either).
            parts.append("$" if follower == "$" else text[dollar : dollar + 2])
            at = dollar + 2
            if follower == "(":
                parts.append(text[at:].replace("$$", "$"))
                at = end
            continue
        name = text[dollar + 2 : close]
        value = variables.get(name)
        if value is None:
            unresolved.append(name)
            parts.append(text[dollar : close + 1])
        else:
            parts.append(value.text)
            unresolved.extend(value.unresolved)
            room -= len(value.text)
            if room < 0:
                return Expanded(text, (name,))
        at = close + 1
    parts.append(text[at:])
    return Expanded("".join(parts), tuple(unresolved))


def environment(env: Sequence[EnvVar]) -> dict[str, Expanded]:
    """A role's variables: later entries replace earlier ones, references see what stands before them, no value is an empty one."""
    known: dict[str, Expanded] = {}
    for variable in env:
        known[variable.name] = expand(variable.value or "", known)
    return known
