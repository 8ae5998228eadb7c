"""typer's commands and groups, whose help has options in groups, and which are imported only when called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command whose help has its options in groups, as their ``rich_help_panel`` says, and no types of Python."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments as the documentation names them: ``FILE``, or ``[FILE]...``."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return [str(self.options_metavar), *map(_usage, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments and each group of options."""
        write_options(self.get_params(ctx), formatter)


def write_options(params: list[Any], formatter: Any) -> None:
    """Writes arguments and options, a section for each group, in the order of the first of each."""
    groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
    for param in params:
        if not param.hidden:
            title = "Arguments" if param.param_type_name == "argument" else panel(param)
            groups.setdefault(title, []).append((_name(param), _help(param)))
    for title, lines in groups.items():
        if lines:
            with formatter.section(title):
                formatter.write_dl(lines)


def panel(param: Any) -> str:
    """The group of an option; those of every command are in the last one."""
    return getattr(param, "rich_help_panel", None) or "Options"


def _usage(argument: Any) -> str:
    name = argument.metavar if argument.required else f"[{argument.metavar}]"
    return name + ("..." if argument.nargs != 1 else "")


def _name(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar)
    names = ", ".join(sorted(param.opts, key=len))
    if param.is_flag:
        return " / ".join([names, *param.secondary_opts])
    return f"{names} {param.metavar}"


def _help(param: Any) -> str:
    """The option's help, with its default where that is a value."""
    text, default = str(param.help or ""), param.default
    if getattr(param, "is_flag", False):
        default = param.opts[0] if default and param.secondary_opts else None
    return text if default in (None, "") else f"{text.rstrip('.')}; default: {default}."


class Commands(TyperGroup):
    """A group that lists each command with the whole first sentence of its help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the options and the commands."""
        write_options(self.get_params(ctx), formatter)
        lines = [(name, command.short_help or first_line(command.help)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(lines)


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
            """Puts the command that is called, or whose options the shell completes, in the place of its name."""
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
