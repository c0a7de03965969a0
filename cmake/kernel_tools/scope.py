# SPDX-License-Identifier: MIT
"""Names, and how the JSON of a rule is resolved with them: templates, conditions and expressions."""

import json
import re

from . import KernelBuildError
from .expression import evaluate

PIECE = re.compile(r"\{\{|\}\}|\{(=)?([^{}]*)\}")
MISSING = object()


class Scope:
    """Names, and how the JSON of a rule is resolved with them."""

    def __init__(self, names, space):
        self.names = names
        self.space = space

    def with_names(self, **names):
        return Scope({**self.names, **names}, self.space)

    def evaluate(self, text):
        if isinstance(text, (int, bool)):
            return int(text)
        return evaluate(text, self.names, self.space.maps, self.space.words)

    def piece(self, computed, body, text):
        body = body.strip()
        if computed:
            return self.evaluate(body)
        if not re.fullmatch(r"[A-Za-z_]\w*(\[.*\])?", body):
            raise KernelBuildError(f"'{text}': '{{{body}}}' is no {{name}}, {{map[name]}} or {{= expression}}")
        if body in self.names:
            return self.names[body]
        if "[" not in body:
            raise KernelBuildError(f"'{text}': no name '{body}'; names are {sorted(self.names)}")
        return self.evaluate(body)

    def text(self, text):
        whole = PIECE.fullmatch(text)
        if whole and whole.group(2) is not None:
            return self.piece(whole.group(1), whole.group(2), text)

        def replace(match):
            if match.group(2) is None:
                return match.group(0)[0]
            value = self.piece(match.group(1), match.group(2), text)
            return str(value).lower() if isinstance(value, bool) else str(value)

        return PIECE.sub(replace, text)

    def branch(self, node):
        unknown = set(node) - {"if", "then", "else"}
        if unknown:
            raise KernelBuildError(f"condition {json.dumps(node)}: unknown keys {sorted(unknown)}")
        return node.get("then" if self.evaluate(node["if"]) else "else", MISSING)

    def resolve(self, node):
        if isinstance(node, str):
            return self.text(node)
        if isinstance(node, list):
            result = []
            for element in node:
                if isinstance(element, dict) and "if" in element:
                    value = self.resolve(element)
                    if value is not MISSING:
                        result.extend(value if isinstance(value, list) else [value])
                else:
                    result.append(self.resolve(element))
            return result
        if isinstance(node, dict):
            if "if" in node:
                taken = self.branch(node)
                return MISSING if taken is MISSING else self.resolve(taken)
            resolved = {self.text(key): self.resolve(value) for key, value in node.items()}
            return {key: value for key, value in resolved.items() if value is not MISSING}
        return node
