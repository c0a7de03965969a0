# SPDX-License-Identifier: MIT
"""A parser of the pseudocode in AMD's instruction set manuals, as tinygrad carries it.

Expressions are tuples: ("number", text), ("name", text), ("type", expression, "u32"), ("slice", expression, high, low),
("index", expression, index), ("call", name, arguments), ("cast", "u32", expression), ("join", parts),
("unary", operator, operand), ("binary", operator, left, right), ("choose", condition, yes, no).
Statements are tuples as well: ("assign", operator, target, value), ("declare", name, type, count),
("assign_both", target, target, value), ("if", [(condition, body)...], otherwise), ("for", name, first, last, body), ("break",), ("call", name, arguments).
"""

import re


class NotUnderstood(Exception):
    """The pseudocode of an instruction is prose, or uses what is not translated."""


TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+'\d+\.\d+|\d+'(?:0x[0-9a-fA-F]+|\d+)U?(?![\w(])|\d+\.\d+F?|\d+(?:ULL|LL|U|F)?(?!['\w]))|
    (?P<cast>\d+'[A-Z]+)|
    (?P<name>[A-Za-z_]\w*)|
    (?P<mark>\*\*|<<|>>|<=|>=|==|!=|<>|&&|\|\||\+=|-=|[-+*/%&|^~!<>=?:.,;(){}\[\]])
)""",
    re.VERBOSE,
)

PRECEDENCE = [
    ["||"],
    ["&&"],
    ["|"],
    ["^"],
    ["&"],
    ["==", "!=", "<>"],
    ["<", "<=", ">", ">="],
    ["<<", ">>"],
    ["+", "-"],
    ["*", "/", "%"],
]


def without_lambdas(text):
    """Leaves out the definitions of helpers: numbers.hpp has them under the same names."""
    while match := re.search(r"\w+ = lambda\([^)]*\) \(", text):
        depth, at = 1, match.end()
        while depth:
            if at == len(text):
                raise NotUnderstood("a lambda without an end")
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        text = text[: match.start()] + text[at:].lstrip("; \n")
    return text


def tokens_of(text):
    text = without_lambdas(re.sub(r"//[^\n]*", "", text))
    at, result = 0, []
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None:
            raise NotUnderstood(f"text {text[at : at + 20]!r}")
        result.append((match.lastgroup, match.group(match.lastgroup)))
        at = match.end()
    return result


class Parser:
    def __init__(self, text):
        self.tokens = tokens_of(text)
        self.at = 0

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else None

    def take(self, expected=None):
        if self.at >= len(self.tokens) or expected not in (None, self.peek()):
            raise NotUnderstood(f"{self.peek()!r} where {expected!r} is expected")
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, text):
        if self.peek() != text:
            return False
        self.at += 1
        return True

    def program(self):
        body = self.block(())
        if self.at != len(self.tokens):
            raise NotUnderstood(f"{self.peek()!r} behind the end")
        return body

    def block(self, ends):
        body = []
        while self.at < len(self.tokens) and self.peek() not in ends:
            body.append(self.statement())
            self.accept(";")
        return body

    def statement(self):
        word = self.peek()
        if word == "if":
            return self.choice()
        if word == "for":
            self.take()
            name = self.take()[1]
            self.take("in")
            first = self.expression()
            self.take(":")
            last = self.expression()
            self.take("do")
            body = self.block(("endfor",))
            self.take("endfor")
            return "for", name, first, last, body
        if word == "declare":
            self.take()
            name = self.take()[1]
            self.take(":")
            kind, count = self.take()[1], None
            if self.accept("["):
                count = self.expression()
                self.take("]")
            return "declare", name, kind, count
        if word == "break":
            self.take()
            return ("break",)
        target = self.expression()
        for operator in ("=", "+=", "-="):
            if self.accept(operator):
                value = self.expression()
                if self.accept("="):  # EXEC.u64[laneId] = D0.u64[laneId] = …
                    return "assign_both", target, value, self.expression()
                return "assign", operator, target, value
        if target[0] == "call":
            return target
        raise NotUnderstood(f"a statement that is none, before {self.peek()!r}")

    def choice(self):
        branches, otherwise = [], []
        self.take("if")
        while True:
            condition = self.expression()
            self.take("then")
            branches.append((condition, self.block(("elsif", "else", "endif"))))
            if not self.accept("elsif"):
                break
        if self.accept("else"):
            otherwise = self.block(("endif",))
        self.take("endif")
        return "if", branches, otherwise

    def expression(self):
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        yes = self.expression()
        self.take(":")
        return "choose", condition, yes, self.expression()

    def binary(self, level):
        if level == len(PRECEDENCE):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in PRECEDENCE[level]:
            operator = self.take()[1]
            left = ("binary", operator, left, self.binary(level + 1))
        return left

    def unary(self):
        if self.peek() in ("-", "~", "!", "+"):
            operator = self.take()[1]
            operand = self.unary()
            return operand if operator == "+" else ("unary", operator, operand)
        base = self.postfix()
        if self.accept("**"):
            return "binary", "**", base, self.unary()
        return base

    def postfix(self):
        expression = self.primary()
        while True:
            if self.accept("."):
                expression = ("type", expression, self.take()[1])
            elif self.accept("["):
                high = self.expression()
                if self.accept(":"):
                    expression = ("slice", expression, high, self.expression())
                else:
                    expression = ("index", expression, high)
                self.take("]")
            else:
                return expression

    def primary(self):
        kind, text = self.take()
        if kind == "number":
            return "number", text
        if kind == "cast":
            self.take("(")
            inner = self.expression()
            self.take(")")
            bits, letter = text.split("'")
            return "cast", letter.lower() + bits, inner
        if text == "(":
            inner = self.expression()
            self.take(")")
            return inner
        if text == "{":
            parts = [self.expression()]
            while self.accept(","):
                parts.append(self.expression())
            self.take("}")
            return "join", parts
        if kind == "name":
            if text == "lambda":
                raise NotUnderstood("a lambda")
            if self.accept("("):
                arguments = []
                while not self.accept(")"):
                    arguments.append(self.expression())
                    self.accept(",")
                return "call", text, arguments
            return "name", text
        raise NotUnderstood(f"{text!r} in an expression")
