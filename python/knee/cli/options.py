"""Commands, imported only when called, and the options that several share, in the groups that help texts have.

An option of a name means the same in every command, with one placeholder for its value and in one group;
`tests/test_cli_options.py` enforces it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from knee.cli import complete
from knee.system import requests as shared
from knee.system.requests import Key, keys

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


#: The groups of options, and those of the commands of the kernel parts.
INPUT, AXES, FIGURE, RUNNING, OUTPUT, CODE = shared.GROUPS
KERNEL, DEVICE = "Kernel", "Device"


def option(group: str, *names: str, **settings: Any) -> Any:
    """An option of a group; ``settings`` are typer's."""
    return typer.Option(*names, rich_help_panel=group, **settings)


def choice(group: str, words: tuple[str, ...], *names: str, **settings: Any) -> Any:
    """An option whose value is one of ``words``, which its help shows and the shell completes."""
    return option(group, *names, metavar="|".join(words), autocompletion=_starting(words), **settings)


def takes(*kinds: type, **completed: Any) -> Callable[[_Function], _Function]:
    """Gives a command an option for each key of requests, in place of its ``**asked``, which gets what is given.

    Args:
        kinds: the requests (:mod:`knee.system.requests`).
        completed: what the shell completes, by key.
    """

    def with_options(function: _Function) -> _Function:
        every = {name: found for kind in kinds for name, found in keys(kind).items()}
        options = [
            Parameter(
                name, Parameter.KEYWORD_ONLY, default=None, annotation=_option_of(name, form, key, completed.get(name))
            )
            for name, (form, key) in every.items()
        ]
        own = [one for one in signature(function, eval_str=True).parameters.values() if one.kind is not one.VAR_KEYWORD]
        arguments = [one for one in own if one.default is one.empty]
        others = [one.replace(kind=one.KEYWORD_ONLY) for one in own if one not in arguments]

        @wraps(function)
        def command(*arguments: Any, **given: Any) -> Any:
            asked = {name: given.pop(name) for name in every}
            for name, value in asked.items():
                if value is not None and value != []:
                    # A list of lists has a text with commas for each.
                    form = _plain(every[name][0])
                    tied = get_origin(form) is list and get_origin(_plain(get_args(form)[0])) is list
                    given[name] = [[word.strip() for word in each.split(",")] for each in value] if tied else value
            return function(*arguments, **given)

        # As typer reads them.
        shown = Signature([*arguments, *options, *others])
        command.__signature__ = shown  # type: ignore[attr-defined]
        command.__annotations__ = {name: one.annotation for name, one in shown.parameters.items()}
        return cast(_Function, command)

    return with_options


def _plain(form: Any) -> Any:
    return get_args(form)[0] if get_origin(form) is Annotated else form


def _option_of(name: str, form: Any, key: Key, completed: Any = None) -> Any:
    """The option of a key of a request, as typer takes it."""
    plain = _plain(form)
    words = get_args(plain) if get_origin(plain) is Literal else tuple(key.placeholder.split("|"))
    kind = plain if plain in (bool, int, float, str) else str if get_origin(plain) is Literal else list[str]
    text = f"--{name.replace('_', '-')}"
    if len(words) > 1:
        return Annotated[kind | None, choice(key.group, words, text, help=key.help)]
    text = f"{text}/--no-{text[2:]}" if key.default is True else text
    shown = {} if plain is bool else {"metavar": key.placeholder}
    return Annotated[kind | None, option(key.group, text, help=key.help, autocompletion=completed, **shown)]


def out(text: str) -> Any:
    """The option of the folder, or the file, that a command writes."""
    return option(OUTPUT, "--out", metavar="DIR", help=text)


def json(text: str) -> Any:
    """The option that prints JSON in place of tables."""
    return option(OUTPUT, "--json", help=text)


def _starting(words: tuple[str, ...]) -> Callable[[str], list[str]]:
    def completed(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completed


Set = _option_of("set", list[str], shared.SET)
Ground = _option_of("ground", str, shared.GROUND)
Kernel = _option_of("kernel", str, shared.KERNEL, complete.built_kernels)
Seeds = Annotated[
    int | None,
    option(
        INPUT, "--seeds", metavar="N", min=1, help="Run each scenario with N seeds; default: as its file says, or 1."
    ),
]
Jobs = Annotated[int | None, option(RUNNING, "--jobs", metavar="N", min=1, help=shared.JOBS.help)]
DryRun = Annotated[
    bool, option(RUNNING, "--dry-run", help="Only check, and print the number of runs, packets and hours.")
]
Again = Annotated[bool, option(RUNNING, "--again", help=shared.AGAIN.help)]
Json = Annotated[bool, json("Print only JSON.")]
Check = Annotated[bool, option(OUTPUT, "--check", help="Exit with 1 if the figures are not as they should be.")]
AllowCode = Annotated[bool, option(CODE, "--allow-code", help=shared.ALLOW_CODE.help)]
Unconfined = Annotated[
    bool, option(CODE, "--unconfined-programs", help="Run them without confinement, on a machine that has none.")
]
