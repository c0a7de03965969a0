# SPDX-License-Identifier: MIT
"""Rewrites C++ sources so that they hold their mutants, one of which is chosen at run time (mutants.hpp).

A mutant is one small change: a boundary (`<` to `<=`), `==` for `!=`, `+` for `-`, `min` for `max`, one side of `&&` or
`||` dropped, a condition or a returned bool negated, a literal plus one, a statement left out. What the compiler
evaluates (template arguments, array sizes, case labels, static_assert, if constexpr, constexpr variables) stays as it
is, and so do what plain data begins with, prefetches and reserve(). Lines keep their numbers, so that a compiler's error names the mutants that do not compile.
"""

import dataclasses
import re
import shutil
import subprocess

from clang import cindex
from clang.cindex import CursorKind, TypeKind

SWAPPED = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "*": "/",
    "/": "*",
    "%": "*",
    "<<": ">>",
    ">>": "<<",
    "&": "|",
    "|": "&",
}
RELATIONS = {"<", "<=", ">", ">=", "==", "!="}
NOT_EVALUATED = {
    CursorKind.STATIC_ASSERT,
    CursorKind.ENUM_DECL,
    CursorKind.CXX_UNARY_EXPR,
    CursorKind.TEMPLATE_TYPE_PARAMETER,
    CursorKind.TEMPLATE_NON_TYPE_PARAMETER,
    CursorKind.TYPE_ALIAS_DECL,
    CursorKind.TYPEDEF_DECL,
    CursorKind.TYPE_REF,
    CursorKind.TEMPLATE_REF,
    CursorKind.TEMPLATE_TEMPLATE_PARAMETER,
}
FUNCTIONS = {
    CursorKind.FUNCTION_DECL,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.DESTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
    CursorKind.FUNCTION_TEMPLATE,
}
LOOPS = {CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT, CursorKind.CXX_FOR_RANGE_STMT}
BODIES = LOOPS | {CursorKind.COMPOUND_STMT, CursorKind.IF_STMT, CursorKind.CASE_STMT, CursorKind.DEFAULT_STMT}
NUMBERS = {TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.LONGDOUBLE, TypeKind.VECTOR}
UNKNOWN = {TypeKind.DEPENDENT, TypeKind.UNEXPOSED, TypeKind.AUTO, TypeKind.INVALID, TypeKind.TYPEDEF}


@dataclasses.dataclass(frozen=True)
class Edit:
    """Bytes [begin, end) become what `rewrite` makes of the number and of the (rewritten) text there."""

    begin: int
    end: int
    line: int
    last_line: int
    change: str  # as the report shows it
    form: str  # the text, with {n} for the number and {text} for what is there
    rank: int = 0  # of edits of the same range, the lower one is outside


def flat(text):
    """Source on one line, without comments."""
    return " ".join(re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S).split())


def between(source, a, b):
    """The operator that lies between two cursors."""
    return flat(source[a.extent.end.offset : b.extent.start.offset].decode())


def strip(cursor):
    """What implicit conversions and parentheses hold."""
    while cursor.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR):
        inner = list(cursor.get_children())
        if len(inner) != 1:
            break
        cursor = inner[0]
    return cursor


class Finder:
    def __init__(self, source):
        self.source = source
        self.edits = {}

    def text(self, cursor):
        return self.source[cursor.extent.start.offset : cursor.extent.end.offset].decode()

    def add(self, cursor, change, form, rank=0, end=None):
        begin, end = cursor.extent.start.offset, end or cursor.extent.end.offset
        edit = Edit(begin, end, cursor.extent.start.line, cursor.extent.end.line, change, form, rank)
        self.edits.setdefault((begin, end, change), edit)

    def choice(self, cursor, mutant):
        if mutant is None:
            return
        mutant = flat(mutant)
        change = f"{flat(self.text(cursor))} -> {mutant}"
        literal = mutant.replace("{", "{{").replace("}", "}}")
        self.add(cursor, change, f"(switchyard_mutants::on({{n}}) ? ({literal}) : ({{text}}))")

    def negate(self, cursor):
        inner = strip(cursor)
        parts = sorted(inner.get_children(), key=lambda c: c.extent.start.offset)
        if len(parts) > 1 and between(self.source, parts[0], parts[-1]) in ("==", "!="):
            return  # which are swapped
        self.add(
            cursor, f"{flat(self.text(cursor))}: negated", "(static_cast<bool>({text}) != switchyard_mutants::on({n}))", -1
        )

    def drop(self, cursor, operator):
        form = "(switchyard_mutants::on({n}) || ({text}))" if operator == "&&" else "(!switchyard_mutants::on({n}) && ({text}))"
        self.add(cursor, f"{flat(self.text(cursor))}: dropped from {operator}", form, -2)

    def leave_out(self, cursor):
        end = self.source.index(b";", cursor.extent.end.offset) + 1
        self.add(cursor, f"{flat(self.text(cursor))}: left out", "{{ if (!switchyard_mutants::on({n})) {text} }}", -3, end)

    def is_constant(self, cursor):
        """A variable that the compiler computes, or one that is set up before main."""
        if cursor.kind != CursorKind.VAR_DECL:
            return False
        head = flat(self.text(cursor)).split("=")[0].split("{")[0]
        return "constexpr" in head or cursor.semantic_parent.kind not in FUNCTIONS

    def condition(self, cursor, children):
        for child in children:
            after = self.source[child.extent.end.offset :].lstrip()[:1]
            if child.kind.is_expression() and after == (b"?" if cursor.kind == CursorKind.CONDITIONAL_OPERATOR else b")"):
                return child
        return None

    def visit(self, cursor, parent=None):
        kind = cursor.kind
        if kind in NOT_EVALUATED or self.is_constant(cursor):
            return
        if flat(self.text(cursor)[:20]).startswith(("noexcept(", "decltype(", "requires ")):
            return
        children = [c for c in cursor.get_children() if c.extent.start.offset < c.extent.end.offset]
        if kind == CursorKind.CASE_STMT:
            children = children[1:]
        if kind == CursorKind.IF_STMT and re.match(r"if\s+constexpr\b", self.text(cursor)):
            children = children[1:]
        elif kind in (CursorKind.IF_STMT, CursorKind.WHILE_STMT, CursorKind.CONDITIONAL_OPERATOR):
            test = self.condition(cursor, children)
            if test is not None:
                self.negate(test)
        if kind in LOOPS and re.fullmatch(r"\{?\s*__builtin_prefetch\([^;]*", self.text(children[-1]).rstrip("; \n}")):
            return
        if kind in FUNCTIONS:
            if re.search(r"=\s*(default|delete)$", self.text(cursor)):
                return
            # Types, template arguments and noexcept are not code that runs.
            children = [
                c
                for c in children
                if c.kind in (CursorKind.COMPOUND_STMT, CursorKind.PARM_DECL, CursorKind.CXX_TRY_STMT)
                or kind == CursorKind.CONSTRUCTOR
                and c.kind.is_expression()
            ]
        if kind == CursorKind.FIELD_DECL and not cursor.spelling.endswith("_"):
            return  # plain data: whoever makes it writes over what it begins with
        if kind in (CursorKind.VAR_DECL, CursorKind.FIELD_DECL, CursorKind.PARM_DECL):
            assigned = [c for c in children if c.kind.is_expression()]
            equals = re.search(r"[={(]", self.text(cursor))
            if "[" in flat(self.text(cursor)).split("=")[0].split("{")[0] or cursor.is_bitfield():
                assigned = assigned[1:]
            children = [c for c in assigned if equals and c.extent.start.offset >= cursor.extent.start.offset + equals.start()]
        if (
            parent is not None
            and parent.kind in BODIES
            and (kind.is_expression() or kind in (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT))
        ):
            self.statement(cursor, parent)
        if kind in (CursorKind.BINARY_OPERATOR, CursorKind.CALL_EXPR):
            self.binary(cursor, children)
        if kind == CursorKind.CALL_EXPR:
            self.extreme(cursor)
        if kind == CursorKind.UNARY_OPERATOR and re.match(r"!(?!=)", self.text(cursor)):
            self.negate(cursor)
        if kind == CursorKind.RETURN_STMT:
            if not children:
                self.leave_out(cursor)
            elif (
                children[0].type.get_canonical().kind == TypeKind.BOOL
                and strip(children[0]).kind != CursorKind.CXX_BOOL_LITERAL_EXPR
            ):
                self.negate(children[0])
        if kind == CursorKind.CXX_BOOL_LITERAL_EXPR and not self.is_template_argument(cursor):
            self.choice(cursor, {"true": "false", "false": "true"}.get(self.text(cursor)))
        self.literal(cursor, kind)
        for child in children:
            self.visit(child, cursor)

    def statement(self, cursor, parent):
        """Leaves out an expression, break or continue that stands as a statement."""
        siblings = list(parent.get_children())
        if parent.kind == CursorKind.IF_STMT:
            test = self.condition(parent, siblings)
            if test is None or cursor.extent.start.offset <= test.extent.start.offset:
                return
        elif parent.kind in LOOPS and cursor != siblings[-1]:
            return
        if re.match(r"static_cast<void>|\(void\)|(__builtin_)?prefetch\(|[\w.>-]+\breserve\(", self.text(strip(cursor))):
            return  # nothing that a test could see
        if self.source[cursor.extent.end.offset :].lstrip()[:1] == b";":
            self.leave_out(cursor)

    def binary(self, cursor, children):
        if len(children) < 2:
            return
        if cursor.kind == CursorKind.CALL_EXPR:
            children = sorted(children, key=lambda c: c.extent.start.offset)
            if not cursor.spelling.startswith("operator"):
                return
        left, right = children[0], children[-1]
        operator = between(self.source, left, right)
        if operator in ("&&", "||"):
            self.drop(left, operator)
            self.drop(right, operator)
        elif operator in SWAPPED and (operator in RELATIONS or self.is_number(left) and self.is_number(right)):
            a, b = self.text(left), self.text(right)
            if operator in ("<", ">") and self.is_settled(cursor, flat(a), flat(b)):
                return
            self.choice(cursor, f"{a} {SWAPPED[operator]} {b}")

    def is_settled(self, cursor, a, b):
        """Whether equal operands make no difference: after `a != b` on the line, or in `a < b ? a : b`."""
        at = cursor.extent
        before = flat(self.source[: at.start.offset].decode().rpartition("\n")[2])
        behind = flat(self.source[at.end.offset :].decode().partition("\n")[0])
        chosen = re.match(r"\? (\S.*) : (.*?)[;,)]", behind)
        return f"{a} != {b}" in before or chosen is not None and {a, b} == set(chosen.groups())

    @staticmethod
    def is_number(cursor):
        kind = cursor.type.get_canonical().kind
        if kind in (TypeKind.POINTER, TypeKind.RECORD):
            return False
        return kind in NUMBERS or kind in UNKNOWN or TypeKind.BOOL.value <= kind.value <= TypeKind.INT128.value

    def extreme(self, cursor):
        text = self.text(cursor)
        found = re.match(r"std::(min|max)\b", text)
        if found:
            self.choice(cursor, "std::" + {"min": "max", "max": "min"}[found[1]] + text[8:])

    def is_template_argument(self, cursor):
        """Whether a literal is the first or the last one of a list like <1, 2>: operators have spaces around them."""
        begin, end = cursor.extent.start.offset, cursor.extent.end.offset
        return self.source[begin - 1 : begin] == b"<" or self.source[end : end + 1] == b">"

    def literal(self, cursor, kind):
        text = self.text(cursor)
        if self.is_template_argument(cursor):
            return
        if kind == CursorKind.CHARACTER_LITERAL and text.startswith("'"):
            self.choice(cursor, f"static_cast<char>({text} + 1)")
        elif kind == CursorKind.INTEGER_LITERAL and re.fullmatch(r"[0-9][\w']*", text):
            self.choice(cursor, f"{text} + 1")
        elif kind == CursorKind.FLOATING_LITERAL and re.fullmatch(r"[0-9.][\w'.+-]*", text):
            self.choice(cursor, f"{text} * 2 + 1")


def find(unit, names):
    """The edits of the files of a translation unit by their name, outer ones first. `names` gives the names by path."""
    finders = {}

    def walk(cursor):
        for child in cursor.get_children():
            path = child.location.file.name if child.location.file else None
            if path not in names:
                continue
            if child.kind in (CursorKind.NAMESPACE, CursorKind.UNEXPOSED_DECL):
                walk(child)
                continue
            if path not in finders:
                with open(path, "rb") as file:
                    finders[path] = Finder(file.read())
            finders[path].visit(child)

    walk(unit.cursor)
    return {
        names[path]: nested(sorted(finder.edits.values(), key=lambda e: (e.begin, -e.end, e.rank)))
        for path, finder in finders.items()
    }


def nested(edits):
    """Without those that cross another one: they come from macros."""
    kept, open_ = [], []
    for edit in edits:
        while open_ and open_[-1].end <= edit.begin:
            open_.pop()
        if open_ and edit.end > open_[-1].end:
            continue
        open_.append(edit)
        kept.append(edit)
    return kept


def rewrite(source, numbered):
    """The source with its (number, edit) pairs, in nested()'s order."""
    at = 0

    def render(begin, end):
        nonlocal at
        out = []
        while at < len(numbered) and numbered[at][1].begin < end:
            number, edit = numbered[at]
            at += 1
            out.append(source[begin : edit.begin].decode())
            out.append(edit.form.format(n=number, text=render(edit.begin, edit.end)))
            begin = edit.end
        out.append(source[begin:end].decode())
        return "".join(out)

    return render(0, len(source))


def parse(path, arguments):
    unit = cindex.Index.create().parse(path, args=arguments)
    wrong = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if wrong:
        raise SystemExit(f"mutate: {path}: {wrong[0]}")
    return unit


def resources():
    """Where clang's own headers are: the Python package has none."""
    for name in ("clang-14", "clang"):
        if shutil.which(name):
            folder = subprocess.run([name, "-print-resource-dir"], capture_output=True, text=True, check=True).stdout.strip()
            return ["-resource-dir", folder]
    return []
