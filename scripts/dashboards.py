"""Writes the Grafana dashboards of `pyrmq deploy monitoring`.

Their panels stand in `scripts/dashboard_panels.py`. What a panel says of its metrics is what the
code's table says. Run it after a change; with `--check` it only reports files that are not up to
date.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from pyrmq.broker.metrics.families import FAMILIES as BROKER
from pyrmq.client.measures import CACHED_BYTES, CACHED_MESSAGES
from pyrmq.client.measures import HISTOGRAMS as CLIENT
from pyrmq.metrics.exposition import FAMILIES as PAGES
from pyrmq.metrics.process import FAMILIES as PROCESS
from pyrmq.metrics.rpc import FAMILIES as RPC
from pyrmq.namesrv.metrics import FAMILIES as NAMESRV

OUT = Path(__file__).resolve().parent.parent / "pyrmq" / "deploy" / "monitoring"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 24, 8
NAME = re.compile(r"\b(?:rocketmq|pyrmq|process|python)_\w+")
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")


def _beside(name: str) -> ModuleType:
    """A script of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


panels = _beside("dashboard_panels")


def meanings() -> dict[str, str]:
    """What each metric means."""
    servers = {f.name: f.doc for f in (*BROKER, *NAMESRV, *PROCESS, *RPC, *PAGES)}
    servers["pyrmq_connections"] = "Open connections."
    return servers | {m.name: f"{m.text}." for m in (*CLIENT, CACHED_MESSAGES, CACHED_BYTES)}


def described(targets: tuple[tuple[str, str], ...], known: dict[str, str]) -> str:
    names: list[str] = []
    for expression, _ in targets:
        for name in NAME.findall(expression):
            stem = name if name in known else SUFFIX.sub("", name)
            if stem not in names:
                names.append(stem)
    return "\n".join(f"{name}: {known[name]}" for name in names)


def panel(number: int, shown: Any, at: dict[str, int], known: dict[str, str]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": shown.unit}
    if shown.kind == "timeseries":
        defaults |= {"min": 0, "custom": {"lineWidth": 1, "fillOpacity": 8, "showPoints": "never"}}
        options: dict[str, Any] = {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    else:
        steps = [{"color": "green", "value": None}]
        if shown.bad is not None:
            steps.append({"color": "red", "value": shown.bad})
        defaults |= {"thresholds": {"mode": "absolute", "steps": steps}}
        options = {
            "colorMode": "value",
            "graphMode": "area",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        }
    return {
        "id": number,
        "type": shown.kind,
        "title": shown.title,
        "description": described(shown.targets, known),
        "datasource": SOURCE,
        "gridPos": at,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": legend,
                "range": True,
            }
            for index, (expression, legend) in enumerate(shown.targets)
        ],
    }


def placed(rows: Any, known: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Rows below each other, the panels of each beside each other."""
    number, y = 1, 0
    for title, shown in rows:
        at = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        yield {
            "id": number, "type": "row", "title": title, "collapsed": False, "gridPos": at,
            "panels": [],
        }  # fmt: skip
        number, y, x = number + 1, y + 1, 0
        height = HEIGHT
        for one in shown:
            height = HEIGHT if one.kind == "timeseries" else HEIGHT // 2
            if x + one.width > WIDTH:
                x, y = 0, y + height
            yield panel(number, one, {"x": x, "y": y, "w": one.width, "h": height}, known)
            number, x = number + 1, x + one.width
        y += height


def variable(name: str, query: str) -> dict[str, Any]:
    """One that Prometheus' labels fill; all of them at first."""
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "options": [],
        "hide": 0,
        "regex": "",
        "skipUrlSync": False,
    }


def dashboard(shown: Any, known: dict[str, str]) -> dict[str, Any]:
    source = {
        "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus",
        "refresh": 1, "hide": 0, "includeAll": False, "multi": False, "options": [], "regex": "",
        "skipUrlSync": False,
    }  # fmt: skip
    return {
        "uid": f"pyrmq-{shown.name}",
        "title": f"RocketMQ (pyrmq): {shown.title}",
        "description": shown.description,
        "tags": ["rocketmq", "pyrmq"],
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [
            {
                "title": "RocketMQ", "type": "dashboards", "tags": ["pyrmq"], "asDropdown": True,
                "icon": "external link", "includeVars": True, "keepTime": True,
                "targetBlank": False, "tooltip": "", "url": "",
            }
        ],
        "templating": {"list": [source, *(variable(*each) for each in shown.variables)]},
        "panels": list(placed(shown.rows, known)),
    }  # fmt: skip


def main() -> int:
    known, stale = meanings(), []
    for shown in panels.DASHBOARDS:
        path = OUT / f"grafana-{shown.name}.json"
        text = json.dumps(dashboard(shown, known), indent=2, ensure_ascii=False) + "\n"
        if not path.exists() or path.read_text() != text:
            stale.append(path)
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale and "--check" in sys.argv:
        names = ", ".join(path.name for path in stale)
        print(f"not up to date: {names}; run scripts/dashboards.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
