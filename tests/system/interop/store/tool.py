"""The official Java client and admin tools as one long-lived child process (java/…/Tool.java)."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from . import peer

ANSWER_TIMEOUT = 60.0


class Tool:
    """A context; each method is one question to the process. `namesrv` is "host:port"; `options`
    are those of the JVM."""

    def __init__(self, home: Path, options: Sequence[str] = ()) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._errors = home / "tool.err"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                peer.java_command(home, "interop.store.Tool", options=options),
                cwd=home,  # some commands write files where they are
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, do: str, namesrv: str, **words: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = json.dumps({"do": do, "namesrv": namesrv, **words})
        self._process.stdin.write(question.encode() + b"\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], ANSWER_TIMEOUT)[0]:
            raise peer.PeerFailed(f"no answer to {question}\n{self._said()}")
        line = self._process.stdout.readline()
        if not line:
            raise peer.PeerFailed(f"the tool ended at {question}\n{self._said()}")
        answer = json.loads(line)
        if "error" in answer:
            raise peer.PeerFailed(f"{question}: {answer['error']}\n{self._said()}")
        return answer.get("result")

    def _said(self) -> str:
        return self._errors.read_text(errors="replace")[-1500:]

    def command(self, namesrv: str, *words: str) -> tuple[str, str]:
        """`mqadmin WORDS`: its stdout and stderr. It has no exit code that tells of a failure."""
        said, complained = self._ask("command", namesrv, words=words)
        return said, complained

    def make_topic(
        self, namesrv: str, broker: str, topic: str, queues: int = 4, **attributes: str
    ) -> None:
        """Creates a topic; attributes with underscores for dots, such as queue_type="BatchCQ"."""
        named = {"+" + name.replace("_", "."): value for name, value in attributes.items()}
        self._ask("topic", namesrv, broker=broker, topic=topic, queues=queues, attributes=named)

    def make_group(self, namesrv: str, broker: str, group: str, retry_max_times: int) -> None:
        self._ask("group", namesrv, broker=broker, group=group, retryMaxTimes=retry_max_times)

    def describe(
        self, namesrv: str, broker: str, topics: list[str], groups: list[str]
    ) -> dict[str, dict[str, Any]]:
        """`topics` and `groups` by name, as the broker's configuration has them."""
        found: dict[str, dict[str, Any]] = self._ask(
            "describe", namesrv, broker=broker, topics=topics, groups=groups
        )
        return found

    def read(self, namesrv: str, topics: list[str]) -> list[dict[str, Any]]:
        """Every message of the topics, queue by queue."""
        found: list[dict[str, Any]] = self._ask("read", namesrv, topics=topics)
        return found

    def query(self, namesrv: str, topic: str, keys: list[str]) -> dict[str, list[dict[str, Any]]]:
        """By key, up to 64 messages that the index leads to."""
        found: dict[str, list[dict[str, Any]]] = self._ask("query", namesrv, topic=topic, keys=keys)
        return found
