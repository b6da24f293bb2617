"""Random SQL92 expressions, and property strings of messages that they may or may not select.

An expression grows by the grammar, as a list of words: mostly one that compiles, sometimes with an
operand where none may stand, and sometimes with words left out, changed or added at the end. Values
of properties come from the same pool as the literals, so that comparisons go either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

NAMES = ("a", "b", "_c1", "$d", "A", "TAGS", "ins", "nota", "trueish", "LIKE")
FEW_NAMES = NAMES[:3]

INTEGERS = (
    "0", "1", "2", "2L", "3", "7l", "10", "100", "2147483647", "2147483648", "3000000000",
    "9223372036854775807", "9223372036854775807L", "9223372036854775808", "00", "0123", "0L",
)  # fmt: skip
FLOATS = (
    "1.0", "2.5", "2.", ".5", "1e1", "5E2", "1.e1", ".25e+1", "10e-1", "1E+2", "0.1",
    "1.7976931348623157E308", "4.9E-324", "9007199254740993.0", "0.0", "1e400", "1e-400", "0e0",
)  # fmt: skip
TEXTS = (
    "", "x", "y", "it's", "axb", "aXb", "'", "''", "-- x", "/* x */", "true", "TRUE", "True",
    "false", "null", " true", "日本", "本", "\U0001f600", "é", "e\u0301", "\0", "\t", "%", "_",
    "x%", "\u212a", "ſ",
    # What numbers may look like.
    "0", "-0", "+0", "1", "2", "+2", "-2", "02", "10", "010", "3.0", "2.5", "1.0", "5.", ".5", ".",
    "+", "-", "--2", "+-2", "1e1", "1E+1", "1e", "e1", "2d", "2D", "2f", "2.5F", "2L", "2dd",
    " 2", "2 ", " 2.5 ", "\t2.5\n", "\u00a02", "2\u3000", "0x10", "0x1p1", "0X1.8P-1f", "0x.8p2",
    "0x1", "0xp1", "NaN", "+NaN", "-NaN", "nan", "Infinity", "-Infinity", "infinity", "1_000",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "3000000000", "9007199254740993",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e308", "1e400",
    "-1e400", "1e-400", "4.9e-324", "0.1", "0.10", "100000000000000000000", "000000000000000002",
    "1,5", "٣", "-٣", "３", "२", "1٣", "\U0001d7d8",
)  # fmt: skip
PARTS = (
    "x",
    "a",
    "b",
    "ax",
    "xb",
    "X",
    "1",
    "2",
    "0",
    ".",
    "e",
    "E",
    "N",
    "-",
    " ",
    "本",
    "日",
    "t",
)
"""What texts may begin or end with."""
NUMBERS = ("0", "1", "2", "3", "10", "2.5", "1.0", "2147483647", "3000000000")
"""Of the values that literals have."""
ORDERS = (">", ">=", "<", "<=")
SEARCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")
STRANGE = (
    "@", "#", "!", "!=", "==", "<>", "=", "*", "/", "%", ".", ";", "?", ":x", '"', "'", "`", "é",
    "本", "\0", "\u00a0", "\x0b", "/*", "*/", "--", "--\n", "(", ")", ",", "+", "-", "[", "{", "|",
    "a.b", "a-b", "0x1F", "1_000", "LIKE", "ESCAPE", "XOR", "NOT", "AND", "OR", "BETWEEN", "IN",
    "IS", "NULL", "TRUE", "FALSE", "a", "1", "'x'",
)  # fmt: skip
"""Words that may come where none of their kind belongs."""
BLANKS = ("\t", "\r\n", "\n", "\f", "  ", " /* AND '-- */ ", " -- it's NULL\n", "--\r", "/**/")

OR, AND, EQUALITY, COMPARISON, UNARY = range(5)
"""How tightly an expression binds."""
Words = list[str]


@dataclass(frozen=True, slots=True)
class Case:
    """An expression, and the property strings of some messages."""

    expression: str
    properties: tuple[bytes, ...]


class Cases:
    """Cases from a seed, one after the other."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._texts: Sequence[str] = TEXTS
        """Those that this expression and its messages share."""

    def next(self) -> list[Case]:
        """One expression, and if it is whole the same behind NOT and before IS NULL: together they
        tell TRUE, FALSE, NULL and an error apart although each says only whether it is TRUE."""
        chance = self._chance
        self._texts = chance.sample(TEXTS, 8)
        _, words = self._condition(chance.choice((0, 1, 1, 2, 2, 3, 4)))
        properties = tuple(self._properties() for _ in range(4))
        if chance.random() < 0.25:
            return [Case(self._spaced(self._damaged(words)), properties)]
        written = self._spaced(words)
        if chance.random() < 0.04:
            written = written[: chance.randrange(len(written) + 1)]
            return [Case(written, properties)]
        every = (written, f"NOT ({written})", f"({written}) IS NULL")
        return [Case(expression, properties) for expression in every]

    # The grammar.

    def _condition(self, depth: int) -> tuple[int, Words]:
        chance = self._chance
        if depth <= 0:
            return self._comparison(0) if chance.random() < 0.95 else self._name()
        match chance.choices(range(6), (4, 4, 2, 1, 4, 2))[0]:
            case 0:
                return self._joined("OR", OR, depth)
            case 1:
                return self._joined("AND", AND, depth)
            case 2:
                return UNARY, ["NOT", *self._inside(self._condition(depth - 1), UNARY)]
            case 3:
                return self._is_null(self._condition(depth - 1))
            case 4:
                return self._comparison(depth)
            case _:
                return self._equality(self._any(depth - 1), self._any(depth - 1))

    def _joined(self, word: str, level: int, depth: int) -> tuple[int, Words]:
        words = self._inside(self._condition(depth - 1), level)
        for _ in range(self._chance.choice((1, 1, 1, 2, 5))):
            words += [word, *self._inside(self._condition(depth - 1), level + 1)]
        return level, words

    def _any(self, depth: int) -> tuple[int, Words]:
        """A value, or at times a condition in its place."""
        return self._operand() if self._chance.random() < 0.8 else self._condition(depth)

    def _comparison(self, depth: int) -> tuple[int, Words]:
        chance = self._chance
        left = self._any(depth - 1) if depth > 0 else self._operand()
        match chance.choices(range(6), (3, 3, 1, 2, 2, 2))[0]:
            case 0:
                return self._equality(left, self._any(depth - 1))
            case 1:
                left = left if chance.random() < 0.1 else self._number()
                words = [*self._inside(left, COMPARISON), chance.choice(ORDERS)]
                return COMPARISON, words + self._inside(self._number(), UNARY)
            case 2:
                return self._is_null(left)
            case 3:
                left = left if chance.random() < 0.1 else self._number()
                words = [*self._inside(left, COMPARISON), *self._maybe_not(), "BETWEEN"]
                words += [*self._inside(self._number(), UNARY), "AND"]
                return COMPARISON, words + self._inside(self._number(), UNARY)
            case 4:
                words = self._inside(left if chance.random() < 0.1 else self._name(), COMPARISON)
                words += [*self._maybe_not(), "IN", "("]
                for at in range(chance.choice((1, 1, 2, 3, 12))):
                    words += [","] * (at > 0) + [_quoted(self._text())]
                return COMPARISON, [*words, ")"]
            case _:
                words = [*self._inside(left, COMPARISON), *self._maybe_not()]
                part = chance.choice(PARTS) if chance.random() < 0.7 else self._text()
                words += [chance.choice(SEARCHES), _quoted(part)]
                return COMPARISON, words

    def _equality(self, left: tuple[int, Words], right: tuple[int, Words]) -> tuple[int, Words]:
        sign = self._chance.choice(("=", "=", "<>"))
        return EQUALITY, [*self._inside(left, EQUALITY), sign, *self._inside(right, COMPARISON)]

    def _is_null(self, left: tuple[int, Words]) -> tuple[int, Words]:
        return EQUALITY, [*self._inside(left, EQUALITY), "IS", *self._maybe_not(), "NULL"]

    def _maybe_not(self) -> Words:
        return ["NOT"] * (self._chance.random() < 0.4)

    def _operand(self) -> tuple[int, Words]:
        chance, signs = self._chance, []
        while chance.random() < 0.12:
            signs.append(chance.choice("+--"))
        match chance.choices(range(5), (16, 3, 2, 3, 0.5))[0]:
            case 0:
                return UNARY, signs + self._name()[1]
            case 1:
                return UNARY, [*signs, chance.choice(INTEGERS)]
            case 2:
                return UNARY, [*signs, chance.choice(FLOATS)]
            case 3:
                return UNARY, [*signs, _quoted(self._text())]
            case _:
                return UNARY, [*signs, chance.choice(("TRUE", "FALSE", "NULL"))]

    def _text(self) -> str:
        return self._chance.choice(self._texts if self._chance.random() < 0.8 else TEXTS)

    def _number(self) -> tuple[int, Words]:
        """What may stand beside > and in BETWEEN, most of the time."""
        chance = self._chance
        if chance.random() < 0.04:
            return self._operand()
        signs = ["-"] * (chance.random() < 0.15)
        kind = chance.random()
        if kind < 0.5:
            return UNARY, signs + self._name()[1]
        return UNARY, [*signs, chance.choice(INTEGERS[:12] if kind < 0.75 else FLOATS[:14])]

    def _name(self) -> tuple[int, Words]:
        chance = self._chance
        return UNARY, [chance.choice(FEW_NAMES if chance.random() < 0.85 else NAMES)]

    def _inside(self, part: tuple[int, Words], level: int) -> Words:
        """A part where only those that bind so tightly may stand; in parentheses if need be."""
        own, words = part
        needed = own < level and self._chance.random() < 0.97
        return ["(", *words, ")"] if needed or self._chance.random() < 0.06 else words

    # How it is written down.

    def _damaged(self, words: Words) -> Words:
        chance, words = self._chance, list(words)
        for _ in range(chance.choice((1, 1, 2, 3))):
            at = chance.randrange(len(words) + 1)
            match chance.randrange(6):
                case 0:
                    del words[at : at + 1]
                case 1:
                    words[at:at] = words[at : at + 1]
                case 2:
                    words[at : at + 1] = [chance.choice(STRANGE)]
                case 3:
                    words.insert(at, chance.choice(STRANGE))
                case _:
                    words += chance.choices(STRANGE, k=chance.choice((1, 1, 2)))
        return words

    def _spaced(self, words: Words) -> str:
        chance, text = self._chance, ""
        for word in words:
            if word[:1].isalpha() and word.isupper():
                word = chance.choice((word, word, word.lower(), word.capitalize()))
            kind = chance.random()
            if kind < 0.08:
                text += chance.choice(BLANKS)
            elif kind < 0.8 or (_of_word(text[-1:]) and _of_word(word[:1]) and kind < 0.99):
                text += " "
            text += word
        return text + chance.choice(("",) * 12 + (*BLANKS, " ", "--", "-- x", "/*", "/* x"))

    # Messages.

    def _properties(self) -> bytes:
        chance = self._chance
        pairs = [
            (name, chance.choice(NUMBERS) if chance.random() < 0.35 else self._text())
            for name in FEW_NAMES
            if chance.random() < 0.75
        ]
        pairs += [(chance.choice(NAMES), self._text()) for _ in range(chance.choice((0, 0, 1, 3)))]
        chance.shuffle(pairs)
        found = b"".join(f"{name}\x01{value}\x02".encode() for name, value in pairs)
        if chance.random() < 0.9:
            return found
        return self._odd(found)

    def _odd(self, properties: bytes) -> bytes:
        """What no client writes: no end, separators left out or doubled, bytes that are no text."""
        chance = self._chance
        at = chance.randrange(len(properties) + 1)
        match chance.randrange(4):
            case 0:
                return properties[:at]
            case 1:
                return properties[:at] + chance.choice((b"\1", b"\2", b"\1\2")) + properties[at:]
            case 2:
                return properties[:at] + properties[at + 1 :]
            case _:
                strange = chance.choice((b"\xff", b"\xc3", b"\xe6\x97", b"\xf0\x9f\x98", b"\x80"))
                return properties[:at] + strange + properties[at:]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _of_word(char: str) -> bool:
    return char.isalnum() or char in ("_", "$", ".", "'")
