"""`pyrmq completion SHELL`: what a shell needs to complete command lines of pyrmq."""

from __future__ import annotations

import click

WHERE = {
    "bash": 'eval "$(pyrmq completion bash)"  in ~/.bashrc',
    "zsh": 'eval "$(pyrmq completion zsh)"  in ~/.zshrc, behind compinit',
    "fish": "pyrmq completion fish > ~/.config/fish/completions/pyrmq.fish",
}


@click.command(epilog="\b\n" + "\n".join(WHERE.values()))
@click.argument("shell", type=click.Choice(sorted(WHERE)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script with which a SHELL completes commands, options and files of pyrmq."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(ctx.find_root().command, {}, "pyrmq", "_PYRMQ_COMPLETE")
    # Not made.source(): for bash that runs a bash to see how old it is.
    click.echo(made.source_template % made.source_vars())
