"""CEL expressions of CRDs, compiled once into Python closures.

cel-python's parser reads the expression; its own evaluators do not run it. The interpreting one takes 5 to 20 ms for a rule of ours, the
compiling one fails on `has(x.y) && …` when `y` is absent, and neither can be bounded. The closures here take microseconds and pay a meter
for every step, so that a rule costs at most its budget, as on an API server. Evaluation errors follow CEL: `||`, `&&`, `all` and `exists`
swallow an error when another operand decides.
"""

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from api.schema.celfunctions import GLOBAL, METHOD, TYPES, Meter, integer
from api.schema.celoperators import ARITHMETIC, RELATIONS, index, member, negative, truth
from api.schema.celvalues import CelError, type_of

BUDGET: Final = 1_000_000

Scope = dict[str, Any]
Code = Callable[[Scope, Meter], Any]
_MACROS: Final = frozenset({"all", "exists", "exists_one", "filter", "map"})


class CelSyntaxError(ValueError):
    """An expression that does not compile."""


class Program:
    """A compiled expression."""

    __slots__ = ("_code", "mentions_old", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        compiler = _Compiler()
        self._code = compiler.compile(text)
        self.mentions_old = "oldSelf" in compiler.names

    def evaluate(self, scope: Scope, meter: Meter | None = None) -> Any:
        """The expression's value. Raises CelError when it has none or costs more than its budget."""
        try:
            return self._code(scope, meter or Meter(BUDGET))
        except CelError:
            raise
        except (ArithmeticError, AttributeError, TypeError, ValueError, RecursionError) as error:
            raise CelError(f"no such overload: {error}") from error


@lru_cache(maxsize=1024)
def compiled(text: str) -> Program:
    """The program of an expression, compiled the first time it is asked for. Raises CelSyntaxError."""
    return Program(text)


class _Compiler:
    """Walks the parser's tree. Every node of it is a method here; a node with one child and no meaning of its own is passed through."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._bound: list[str] = []

    def compile(self, text: str) -> Code:
        from celpy.celparser import CELParseError, CELParser  # noqa: PLC0415  the parser costs 0.2 s: only schemas with rules pay

        try:
            tree = CELParser().parse(text)
        except CELParseError as error:
            raise CelSyntaxError(f"{text!r}: {error.args[0]}") from error
        return self._code(tree)

    def _code(self, tree: Any) -> Code:
        method = getattr(self, f"_{tree.data}", None)
        if method is not None:
            return method(tree)  # type: ignore[no-any-return]
        if len(tree.children) == 1:
            return self._code(tree.children[0])
        raise CelSyntaxError(f"{tree.data} is not supported here")

    # ---------------------------------------------------------------------------------------------------- operators

    def _expr(self, tree: Any) -> Code:
        parts = [self._code(part) for part in tree.children]
        if len(parts) == 1:
            return parts[0]
        test, yes, no = parts
        return lambda scope, meter: yes(scope, meter) if truth(test(scope, meter)) else no(scope, meter)

    def _conditionalor(self, tree: Any) -> Code:
        return self._logic(tree, decides=True)

    def _conditionaland(self, tree: Any) -> Code:
        return self._logic(tree, decides=False)

    def _logic(self, tree: Any, decides: bool) -> Code:
        parts = [self._code(part) for part in tree.children]
        if len(parts) == 1:
            return parts[0]
        left, right = parts

        def run(scope: Scope, meter: Meter) -> bool:
            try:
                if truth(left(scope, meter)) is decides:
                    return decides
            except CelError:
                if truth(right(scope, meter)) is decides:
                    return decides
                raise
            return truth(right(scope, meter))

        return run

    def _relation(self, tree: Any) -> Code:
        return self._binary(tree, RELATIONS)

    def _addition(self, tree: Any) -> Code:
        return self._binary(tree, ARITHMETIC)

    def _multiplication(self, tree: Any) -> Code:
        return self._binary(tree, ARITHMETIC)

    def _binary(self, tree: Any, operators: dict[str, Callable[[Any, Any], Any]]) -> Code:
        if len(tree.children) == 1:
            return self._code(tree.children[0])
        operation, right_tree = tree.children
        left, right = self._code(operation.children[0]), self._code(right_tree)
        apply = operators[operation.data]

        def run(scope: Scope, meter: Meter) -> Any:
            a, b = left(scope, meter), right(scope, meter)
            meter.pay(1 + (len(a) // 10 if isinstance(a, str | list | dict) else 0))
            return apply(a, b)

        return run

    def _unary(self, tree: Any) -> Code:
        if len(tree.children) == 1:
            return self._code(tree.children[0])
        inner = self._code(tree.children[1])
        if tree.children[0].data == "unary_not":
            return lambda scope, meter: not truth(inner(scope, meter))
        return lambda scope, meter: negative(inner(scope, meter))

    # ------------------------------------------------------------------------------------------------------ members

    def _member_dot(self, tree: Any) -> Code:
        inner, name = self._code(tree.children[0]), str(tree.children[1])
        return lambda scope, meter: member(inner(scope, meter), name, meter)

    def _member_index(self, tree: Any) -> Code:
        inner, at = self._code(tree.children[0]), self._code(tree.children[1])
        return lambda scope, meter: index(inner(scope, meter), at(scope, meter), meter)

    def _member_dot_arg(self, tree: Any) -> Code:
        receiver, name = tree.children[0], str(tree.children[1])
        args = tree.children[2].children if len(tree.children) > 2 else []
        if name in _MACROS:
            return self._macro(name, self._code(receiver), args)
        function = METHOD.get(name)
        if function is None:
            raise CelSyntaxError(f"the function {name}() is not supported here")
        return _call(function, [self._code(receiver), *(self._code(arg) for arg in args)])

    def _macro(self, name: str, items: Code, args: list[Any]) -> Code:
        if len(args) not in ({2, 3} if name == "map" else {2}):
            raise CelSyntaxError(f"{name}() takes a variable and an expression")
        variable = _identifier(args[0])
        self._bound.append(variable)
        body = [self._code(arg) for arg in args[1:]]
        self._bound.pop()
        loop = _LOOPS[name]

        def run(scope: Scope, meter: Meter) -> Any:
            values = items(scope, meter)
            if not isinstance(values, list | dict):
                raise CelError(f"no such overload: {type_of(values)}.{name}()")
            inner = dict(scope)

            def each(code: Code, value: Any) -> Any:
                meter.pay(2)
                inner[variable] = value
                return code(inner, meter)

            return loop(list(values), body, each)

        return run

    # ------------------------------------------------------------------------------------------------------ primaries

    def _ident_arg(self, tree: Any) -> Code:
        name = str(tree.children[0])
        args = tree.children[1].children if len(tree.children) > 1 else []
        if name == "has":
            return self._has(args)
        function = GLOBAL.get(name)
        if function is None:
            raise CelSyntaxError(f"the function {name}() is not supported here")
        return _call(function, [self._code(arg) for arg in args])

    def _has(self, args: list[Any]) -> Code:
        node = args[0] if len(args) == 1 else None
        while node is not None and node.data != "member_dot":
            node = node.children[0] if len(node.children) == 1 and hasattr(node.children[0], "data") else None
        if node is None:
            raise CelSyntaxError("has() takes a member: has(a.b)")
        inner, name = self._code(node.children[0]), str(node.children[1])

        def run(scope: Scope, meter: Meter) -> bool:
            meter.pay(1)
            value = inner(scope, meter)
            if not isinstance(value, dict):
                raise CelError(f"no such overload: has({type_of(value)}.{name})")
            return name in value

        return run

    def _ident(self, tree: Any) -> Code:
        name = str(tree.children[0])
        if name in TYPES and name not in self._bound:
            kind = TYPES[name]
            return lambda scope, meter: kind
        if name not in self._bound:
            self.names.add(name)

        def run(scope: Scope, meter: Meter) -> Any:
            try:
                return scope[name]
            except KeyError as error:
                raise CelError(f"undeclared reference to '{name}'") from error

        return run

    def _literal(self, tree: Any) -> Code:
        value = _constant(tree.children[0])
        return lambda scope, meter: value

    def _list_lit(self, tree: Any) -> Code:
        items = [self._code(item) for item in tree.children[0].children] if tree.children else []
        return lambda scope, meter: [item(scope, meter) for item in items]

    def _map_lit(self, tree: Any) -> Code:
        parts = [self._code(part) for part in tree.children[0].children] if tree.children else []
        pairs = list(zip(parts[::2], parts[1::2], strict=True))
        return lambda scope, meter: {name(scope, meter): value(scope, meter) for name, value in pairs}

    def _paren_expr(self, tree: Any) -> Code:
        return self._code(tree.children[0])


def _identifier(tree: Any) -> str:
    node = tree
    while hasattr(node, "data"):
        if len(node.children) != 1:
            raise CelSyntaxError("a macro's variable has to be a plain name")
        node = node.children[0]
    return str(node)


def _call(function: Callable[..., Any], args: list[Code]) -> Code:
    return lambda scope, meter: function(meter, *[arg(scope, meter) for arg in args])


Each = Callable[[Code, Any], Any]


def _decided(values: list[Any], body: list[Code], each: Each, decides: bool) -> bool:
    failed: CelError | None = None
    for value in values:
        try:
            if truth(each(body[0], value)) is decides:
                return decides
        except CelError as error:
            failed = error
    if failed is not None:
        raise failed
    return not decides


def _filtered(values: list[Any], body: list[Code], each: Each) -> list[Any]:
    return [value for value in values if truth(each(body[0], value))]


def _mapped(values: list[Any], body: list[Code], each: Each) -> list[Any]:
    if len(body) == 2:
        return [each(body[1], value) for value in values if truth(each(body[0], value))]
    return [each(body[0], value) for value in values]


_LOOPS: Final[dict[str, Callable[[list[Any], list[Code], Each], Any]]] = {
    "all": lambda values, body, each: _decided(values, body, each, False),
    "exists": lambda values, body, each: _decided(values, body, each, True),
    "exists_one": lambda values, body, each: len(_filtered(values, body, each)) == 1,
    "filter": _filtered,
    "map": _mapped,
}


def _constant(token: Any) -> Any:
    text = str(token)
    match token.type:
        case "INT_LIT":
            return integer(int(text, 0) if "x" in text else int(text))
        case "UINT_LIT":
            return int(text[:-1], 0) if "x" in text else int(text[:-1])
        case "FLOAT_LIT":
            return float(text)
        case "BOOL_LIT":
            return text == "true"
        case "NULL_LIT":
            return None
        case "BYTES_LIT":
            return _string(text[1:]).encode()
    return _string(text)


def _string(text: str) -> str:
    """A CEL string literal; its escapes are Python's."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError) as error:
        raise CelSyntaxError(f"{text} is no string") from error
    return str(value)
