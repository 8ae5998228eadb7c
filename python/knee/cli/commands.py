"""typer's commands and groups, with help texts that are never cut, and imported only when called."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: The type of an argument and the range of a number as typer shows them; they mean something only to programmers.
_TYPE = re.compile(r" <[^>]*>$|(?<=\S) <[^ ]*>(?= |$)")
_RANGE = re.compile(r"(; )?-?[\d.]*(<=)?x[<>]=?[\d.]+")


class Command(TyperCommand):
    """A command whose help names arguments as the documentation does."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """``FILE`` for a required argument, not ``{FILE}``."""
        return [re.sub(r"^\{(.+)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments and options without Python's types and ranges."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            params = [param for param in self.get_params(ctx) if param.param_type_name == kind]
            records = [_plain(record) for param in params if (record := param.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _plain(record: tuple[str, str]) -> tuple[str, str]:
    name, text = record
    return _TYPE.sub("", name), _RANGE.sub("", text).replace("[required]", "").replace("[]", "").strip()


class Commands(TyperGroup):
    """A group that lists each command with the whole first sentence of its help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in self.commands.values():
            command.short_help = command.short_help or first_line(command.help)


def first_line(text: str | None) -> str:
    """The line that describes a command in a list."""
    return (text or "").strip().partition("\n")[0]


@dataclass(frozen=True)
class Later:
    """A command that is imported only when it is called.

    Attributes:
        home: its module.
        name: its function there, or its :class:`typer.Typer` if it is a group.
        about: the first line of its help, for the list of commands.
    """

    home: str
    name: str
    about: str

    def load(self, name: str) -> Any:
        """The command, called ``name``."""
        found = getattr(import_module(self.home), self.name)
        if isinstance(found, typer.Typer):
            command: Any = typer.main.get_group(found)
        else:
            alone = group()
            alone.command(name, cls=Command)(found)
            command = typer.main.get_command(alone)
        command.name, command.short_help = name, self.about
        return command


def loaded_later(commands: dict[str, Later]) -> type[Commands]:
    """A class of groups with these commands; showing help and completing names does not import them."""

    class LoadedLater(Commands):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            for name, command in commands.items():
                self.add_command(TyperCommand(name, short_help=command.about))

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args and args[0] in commands:
                self.add_command(commands[args[0]].load(args[0]))
            return super().resolve_command(ctx, args)

    return LoadedLater


def group(
    name: str | None = None, *, cls: type[Commands] = Commands, about: str | None = None, completion: bool = False
) -> typer.Typer:
    """A group of commands in this program's style; ``completion`` adds options that install shell completion."""
    return typer.Typer(
        name=name,
        cls=cls,
        help=about,
        add_completion=completion,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def command(app: typer.Typer, name: str, **settings: Any) -> Callable[[_Function], _Function]:
    """Adds a command to a group."""
    return app.command(name, cls=Command, **settings)
