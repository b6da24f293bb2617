"""Which files import which, and the circles among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

# A file's name to the names of the files that it imports.
Graph = Mapping[str, Iterable[str]]


def circles(graph: Graph) -> list[list[str]]:
    """The strongly connected parts of more than one file, each sorted by name (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for start in sorted(graph):
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        work = [(start, iter(sorted(graph[start])))]
        while work:
            file, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(graph.get(target, ())))))
                    break
                if target in on_stack:
                    low[file] = min(low[file], index[target])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[file])
                if low[file] == index[file]:
                    part = stack[stack.index(file) :]
                    del stack[len(stack) - len(part) :]
                    on_stack -= set(part)
                    if len(part) > 1:
                        found.append(sorted(part))
    return sorted(found)


def shortest(graph: Graph, circle: list[str]) -> list[str]:
    """The shortest way round in a circle; it ends at the file where it starts."""
    within = set(circle)
    return min((_way_round(graph, within, file) for file in circle), key=len)


def _way_round(graph: Graph, within: set[str], start: str) -> list[str]:
    """Breadth first from `start` back to it, over files of a circle."""
    ways = deque([[start]])
    seen: set[str] = set()
    while ways:
        way = ways.popleft()
        for target in sorted(set(graph[way[-1]]) & within - seen):
            if target == start:
                return [*way, start]
            seen.add(target)
            ways.append([*way, target])
    raise ValueError(f"{start} is in no circle")
