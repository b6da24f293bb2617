"""What the tests of cluster files share: the commands that export, compare and apply them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.mqadmin import Ran, admin

HEAD = "format: pyrmq-cluster/1\ncluster: DefaultCluster\n"


async def exported(namesrv: str, folder: Path) -> Ran:
    """Writes cluster.yaml into the folder."""
    words = ("export", "cluster", "-c", "DefaultCluster", "--folder", str(folder))
    ran = await admin(namesrv, *words)
    assert ran.code == 0, ran.err
    return ran


async def changes(namesrv: str, file: str | Path, *words: str) -> list[dict[str, Any]]:
    """What `cluster apply` would do."""
    ran = await admin(namesrv, "cluster", "diff", str(file), "-o", "json", *words)
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)["changes"]
    return found


async def applied(namesrv: str, file: str | Path, *words: str) -> Ran:
    """Nobody is asked."""
    return await admin(namesrv, "cluster", "apply", str(file), "--yes", *words)
