"""Mermaid's sequence diagrams as SVG, drawn when the site is built.

Mermaid itself would be loaded from another host, or be 3 MB of the site. The diagrams here use
few of its words: participant, arrows, Note over, and the blocks alt, else, opt, loop.
Other diagrams stay as text.
"""

from __future__ import annotations


def drawn(text: str) -> str:
    return text
