# SPDX-License-Identifier: MIT
"""The manifest's expression language, evaluated at build time.

64-bit integers with C's division; overflow and division by zero are errors. Beyond the manifest's language a
name may hold a string, `map[key]` looks a value up, and a word that is no name stands for itself.
"""

import functools
import math
import re

from . import KernelBuildError

TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+)|(?P<word>[A-Za-z_]\w*)|(?P<string>'[^']*')"
    r"|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>!?:(),\[\]]))"
)

PRECEDENCE = [["||"], ["&&"], ["==", "!="], ["<", "<=", ">", ">="], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]]


def tokenize(text):
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise KernelBuildError(f"expression '{text}': unexpected '{text[position:].lstrip()[0]}'")
        tokens.append((match.lastgroup, match.group(match.lastgroup)))
        position = match.end()
    return tokens


class Parser:
    """Recursive descent; nodes are tuples (kind, operands...)."""

    def __init__(self, text):
        self.text = text
        self.tokens = tokenize(text)
        self.position = 0

    def fail(self, expected):
        found = self.tokens[self.position][1] if self.position < len(self.tokens) else "the end"
        raise KernelBuildError(f"expression '{self.text}': expected {expected}, found {found}")

    def peek(self):
        return self.tokens[self.position] if self.position < len(self.tokens) else (None, None)

    def accept(self, *operators):
        kind, value = self.peek()
        if kind == "operator" and value in operators:
            self.position += 1
            return value
        return None

    def expect(self, operator):
        if not self.accept(operator):
            self.fail(f"'{operator}'")

    def whole(self):
        node = self.conditional()
        if self.position != len(self.tokens):
            self.fail("an operator")
        return node

    def conditional(self):
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        yes = self.conditional()
        self.expect(":")
        return ("?", condition, yes, self.conditional())

    def binary(self, level):
        if level == len(PRECEDENCE):
            return self.unary()
        left = self.binary(level + 1)
        while operator := self.accept(*PRECEDENCE[level]):
            left = (operator, left, self.binary(level + 1))
        return left

    def unary(self):
        if operator := self.accept("-", "+", "!"):
            return ("unary" + operator, self.unary())
        return self.primary()

    def primary(self):
        kind, value = self.peek()
        if kind is None:
            self.fail("a value")
        self.position += 1
        if kind == "number":
            return ("value", int(value, 0))
        if kind == "string":
            return ("value", value[1:-1])
        if kind == "word":
            if self.accept("("):
                arguments = [self.conditional()]
                while self.accept(","):
                    arguments.append(self.conditional())
                self.expect(")")
                return ("call", value, arguments)
            if self.accept("["):
                key = self.conditional()
                self.expect("]")
                return ("lookup", value, key)
            return ("word", value)
        if value == "(":
            inner = self.conditional()
            self.expect(")")
            return inner
        self.position -= 1
        return self.fail("a value")


@functools.cache
def parse(text):
    return Parser(text).whole()


def words_of(text):
    """Every bare word an expression reads, map names left out."""
    found = set()

    def visit(node):
        if node[0] == "word":
            found.add(node[1])
            return
        for part in node[1:]:
            for child in part if isinstance(part, list) else [part]:
                if isinstance(child, tuple):
                    visit(child)

    visit(parse(text))
    return found


def divide(left, right):
    if right == 0:
        raise ZeroDivisionError
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def ceil_div(left, right):
    if right == 0:
        raise ZeroDivisionError
    return -(-left // right)


FUNCTIONS = {
    "min": (None, min),
    "max": (None, max),
    "ceil_div": (2, ceil_div),
    "round_up": (2, lambda value, unit: ceil_div(value, unit) * unit),
    "next_pow2": (1, lambda value: 1 if value <= 1 else 1 << (value - 1).bit_length()),
    "sqrt": (1, math.isqrt),
}

ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divide,
    "%": lambda a, b: a - divide(a, b) * b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
}


def evaluate(text, names, maps=None, words=()):
    """The value of an expression: an integer, or a string where names and maps hold strings."""
    maps = maps or {}

    def fail(message):
        bound = ", ".join(f"{name}={value}" for name, value in names.items())
        raise KernelBuildError(f"expression '{text}': {message} (names: {bound})")

    def integer(node):
        value = visit(node)
        if not isinstance(value, int):
            fail(f"'{value}' is not an integer")
        return int(value)

    def checked(value):
        if not -(1 << 63) <= value < 1 << 63:
            fail("64-bit overflow")
        return value

    def visit(node):
        kind = node[0]
        if kind == "value":
            return node[1]
        if kind == "word":
            word = node[1]
            if word in names:
                return int(names[word]) if isinstance(names[word], bool) else names[word]
            if word in ("true", "false"):
                return int(word == "true")
            if word in words:
                return word
            fail(f"'{word}' is neither a name nor a value of this file; write a string in quotes, as '{word}'")
        if kind == "lookup":
            key = visit(node[2])
            if node[1] not in maps:
                fail(f"no map '{node[1]}'; maps are {sorted(maps)}")
            if str(key) not in maps[node[1]]:
                fail(f"map '{node[1]}' has no key '{key}'")
            return maps[node[1]][str(key)]
        if kind == "?":
            return visit(node[2] if integer(node[1]) else node[3])
        if kind in ("==", "!="):
            left, right = visit(node[1]), visit(node[2])
            if isinstance(left, str) != isinstance(right, str):
                fail(f"'{left}' and '{right}' are of different kinds")
            return int((left == right) == (kind == "=="))
        if kind == "&&":
            return int(bool(integer(node[1])) and bool(integer(node[2])))
        if kind == "||":
            return int(bool(integer(node[1])) or bool(integer(node[2])))
        if kind == "unary-":
            return checked(-integer(node[1]))
        if kind == "unary+":
            return integer(node[1])
        if kind == "unary!":
            return int(not integer(node[1]))
        if kind == "call":
            if node[1] not in FUNCTIONS:
                fail(f"no function '{node[1]}'; functions are {sorted(FUNCTIONS)}")
            count, function = FUNCTIONS[node[1]]
            if count is not None and count != len(node[2]):
                fail(f"{node[1]} takes {count} arguments, got {len(node[2])}")
            arguments = [integer(argument) for argument in node[2]]
        else:
            function, arguments = ARITHMETIC[kind], [integer(node[1]), integer(node[2])]
            if kind in ("<<", ">>") and not 0 <= arguments[1] < 64:
                fail(f"shift by {arguments[1]}")
        try:
            return checked(function(*arguments))
        except ZeroDivisionError:
            return fail("division by zero")
        except ValueError:
            return fail(f"{node[1]} of {arguments[0]}")

    return visit(parse(text))
