"""Follows a page of docs/ as a reader does: writes its programs, runs its commands, compares.

    python tests/docs/walk.py docs/tutorial.md [--folder DIR] [--bin DIR] [--without "pip install"]

- A block of `sh` is run. `pyrmq server …` and other servers are started, and serve until the page
  starts them again.
- A block of `text` behind it is its output: `…` stands for any text, a line `…` for any lines.
  Blanks of tables need not be as many.
- `# exit code N` at the end of a line of `sh` is the code that the command ends with.
- A block of Python below a line that names a file in backquotes is that file.

Pages name the default ports and /data; a walk uses free ports and a folder of its own. A test runs
plain commands of `pyrmq` in its own process, as each start of Python takes longer than the command.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import TracebackType
from typing import Self

FENCE = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SERVES = re.compile(r"pyrmq (server|broker|namesrv)\b(?!.*--help)")
FILE = re.compile(r"`([\w-]+\.(?:py|conf|yaml|toml))`")
CODE = re.compile(r"\s*# exit code (\d+)(?: or (\d+))?[^\n]*$", re.MULTILINE)
FOLDERS = re.compile(r"(?<![\w./])/(?:data|backup)\b")
"""Folders that pages name."""
PORTS = {"9876": "--namesrv-port", "10911": "--broker-port"}
SECONDS = 120.0


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    text: str
    before: str
    """The last line of text above it."""


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        above = text[: match.start()].rstrip().rpartition("\n")[2]
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Block(line, match[1].strip(), dedent(match[2]), above))
    return found


def steps(page: Path) -> Iterator[tuple[Block, Block | None]]:
    """Blocks to run or to write, each with the block of its output."""
    found = blocks(page)
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.language != "text":
            shown = after is not None and after.language == "text" and block.language == "sh"
            yield block, after if shown else None


def pattern(expected: str) -> re.Pattern[str]:
    """What output has to be, however many blanks are in it."""
    lines = []
    for line in unspaced(expected).split("\n"):
        if line == "…":
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            lines.append(".*?".join(re.escape(part) for part in line.split("…")) + r"\n")
    return re.compile("".join(lines))


def unspaced(text: str) -> str:
    lines = (re.sub(" +", " ", line).rstrip() for line in text.rstrip("\n").split("\n"))
    return "\n".join(lines)


def plain_commands(text: str) -> list[list[str]] | None:
    """The commands of a block without their `pyrmq`; None if it takes a shell, or a process."""
    commands = []
    for line in text.replace("\\\n", " ").splitlines():
        if re.search(r"[|;&$<>*()~`]|^\s*pyrmq pipeline", line):
            return None
        words = shlex.split(line, comments=True)
        if words and words[0] != "pyrmq":
            return None
        if words:
            commands.append(words[1:])
    return commands


class WalkError(AssertionError):
    """A page says something else than one sees."""


class Walk:
    """A reader with a folder, and servers that run in it."""

    def __init__(self, page: Path, folder: Path, programs: Path, here: bool = False) -> None:
        self.page = page
        self.folder = folder
        self._here_too = here
        self._ports: dict[str, str] = {}
        self._servers: list[subprocess.Popen[str]] = []
        home = folder / "home"
        for path in (home, folder / "data", folder / "backup"):
            path.mkdir(exist_ok=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYRMQ_", "NAMESRV"))}
        self.env = kept | {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "400",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._servers:
            self._stop(server)

    def follow(self, block: Block, output: Block | None) -> None:
        """One step."""
        if block.language == "sh" and SERVES.match(block.text):
            self._serve(block, output)
        elif block.language == "sh":
            self._run(block, output)
        else:
            name = FILE.search(block.before)
            if name is None:
                raise WalkError(f"{self._at(block)}: no command, and no name of a file above it")
            (self.folder / name[1]).write_text(self._here(block.text), encoding="utf-8")

    def _here(self, text: str) -> str:
        """A text of the page with the ports and the folder of this walk."""
        for port, own in self._ports.items():
            text = re.sub(rf"(?<=:){port}\b", own, text)
        return FOLDERS.sub(lambda found: f"{self.folder}{found[0]}", text)

    def _as_printed(self, text: str) -> str:
        """What was printed, as the page would say it."""
        for port, own in self._ports.items():
            text = re.sub(rf"(?<=:){own}\b", port, text)
        return text.replace(str(self.folder), "")

    def _serve(self, block: Block, output: Block | None) -> None:
        while self._servers:
            self._stop(self._servers.pop())
        words = shlex.split(self._here(block.text.strip()))
        if "--console" in words:
            words.insert(words.index("--console") + 1, f"127.0.0.1:{self._ports.get('8090', '0')}")
        for port, option in PORTS.items():
            words += [option, self._ports.get(port, "0")]
        with (self.folder / "server.log").open("a", encoding="utf-8") as log:
            server = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._servers.append(server)
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line.startswith("ready "):
            raise WalkError(f"{self._at(block)}: {line}{(self.folder / 'server.log').read_text()}")
        facts = dict(word.partition("=")[::2] for word in line.split()[1:])
        self._ports = {
            "9876": facts["namesrv"].rpartition(":")[2],
            "10911": facts["broker"].rpartition(":")[2],
        }
        if "console" in facts:
            self._ports["8090"] = facts["console"].rpartition(":")[2]
        self.env["NAMESRV_ADDR"] = facts["namesrv"]
        self._compare(block, output, line)

    def _stop(self, server: subprocess.Popen[str]) -> None:
        if server.poll() is None:
            server.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            server.wait(20)
        if server.poll() is None:
            server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()

    def _run(self, block: Block, output: Block | None) -> None:
        codes = CODE.search(block.text)
        text = self._here(CODE.sub("", block.text))
        commands = plain_commands(text) if self._here_too else None
        code, out, err = self._shell(text) if commands is None else self._in_process(commands)
        if code not in ({int(code) for code in codes.groups() if code} if codes else {0}):
            raise WalkError(f"{self._at(block)}: exit code {code}\n{out}{err}")
        self._compare(block, output, out)

    def _shell(self, text: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def _in_process(self, commands: list[list[str]]) -> tuple[int, str, str]:
        from click.testing import CliRunner  # a walk with a wheel has neither of the two here

        from pyrmq.cli import main as pyrmq

        out = err = ""
        for words in commands:
            with chdir(self.folder):
                done = CliRunner().invoke(pyrmq, words, env=self.env)
            out, err = out + done.stdout, err + done.stderr
            if done.exit_code:
                return done.exit_code, out, err
        return 0, out, err

    def _compare(self, block: Block, output: Block | None, printed: str) -> None:
        seen = self._as_printed(printed)
        if output is not None and not pattern(output.text).fullmatch(f"{unspaced(seen)}\n"):
            raise WalkError(
                f"{self._at(block)}: the page says\n{output.text}\nand one sees\n{seen}"
            )

    def _at(self, block: Block) -> str:
        return f"{self.page.name}, line {block.line}"


def main() -> int:
    """Follows a page; says how long each step took, and what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--bin", type=Path, default=Path(sys.executable).parent)
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    parser.add_argument("--without", default="\0", help="leave out blocks with these words")
    asked = parser.parse_args()
    began = time.monotonic()
    wrong = 0
    with Walk(asked.page, asked.folder.resolve(), asked.bin.absolute()) as walk:
        for block, output in steps(asked.page):
            if asked.without not in block.text:
                step = time.monotonic()
                try:
                    walk.follow(block, output)
                except WalkError as e:
                    wrong += 1
                    print(e)
                print(f"line {block.line}: {time.monotonic() - step:.1f} s")
    print(f"{asked.page}: {time.monotonic() - began:.0f} s, {wrong} steps differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
