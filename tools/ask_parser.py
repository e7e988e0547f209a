"""Ask an inference engine's own parser how it reads argument vectors: one JSON document a line in, one a line out.

    $ORACLE_HOME/venv-vllm/bin/python tools/ask_parser.py vllm < questions.jsonl

A question is `{"argv": [...]}`: a role's arguments, to stand behind the model. An answer is `{"ok", "kind", "flags", "declared"}`: whether
the parser took the whole line; a coarse name of its complaint and the spellings that it named; and what the line stored per destination
(also when it only complained of words that it did not recognise).

    --argparse FILE   another Python's argparse under the same engine
    --source FOLDER   an unpacked release instead of the installed one
    --site FOLDER     further packages that an older SGLang imports

How "stored by the line" is told from a default: every destination's default is one marker object while the parser runs.
Nothing of the engine's behaviour is written down here.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import sys
import types

KINDS = (
    ("unrecognized arguments", "unrecognized"),
    ("ambiguous option", "ambiguous"),
    ("ignored explicit argument", "unwanted_value"),
    ("invalid choice", "invalid_choice"),
    ("expected one argument", "missing_value"),
    ("expected at least one argument", "missing_value"),
    ("expected at most one argument", "missing_value"),
    ("cannot be converted", "invalid_value"),
    ("invalid ", "invalid_value"),
)
MARK = object()


class Complaint(Exception):  # noqa: N818 - what the parser says, no fault of this program
    """The parser called its error() or exit()."""

    def __init__(self, text, status):
        super().__init__(text)
        self.text, self.status = text, status


def other_argparse(path):
    """Load argparse from a file in place of this Python's own, before any engine is imported."""
    if importlib.util.find_spec("_colorize") is None:
        plain = types.ModuleType("_colorize")
        plain.can_colorize = lambda *_a, **_k: False
        plain.decolor = lambda text: text
        sys.modules["_colorize"] = plain
    spec = importlib.util.spec_from_file_location("argparse", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["argparse"] = module
    spec.loader.exec_module(module)


def stand_in(*names):
    """Importable hollow modules for heavy packages that an older engine imports and its parser never uses."""

    class Hollow(type):
        def __getattr__(cls, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Hollow(name, (), {})

    for name in names:
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []

        def member(attribute):
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            return Hollow(attribute, (), {})

        module.__getattr__ = member
        sys.modules[name] = module


def older_sglang():
    """Releases before 0.5.23 import the image library with the model library."""
    vision = "torchvision"
    below = ("io", "transforms", "transforms.functional", "transforms.v2", "transforms.v2.functional")
    stand_in(vision, *(f"{vision}.{name}" for name in below))
    from importlib import metadata

    version, packages = metadata.version, metadata.packages_distributions
    metadata.version = lambda name: "0.28.0" if name == vision else version(name)
    metadata.packages_distributions = lambda: {**packages(), vision: [vision]}


class Asker:
    """One engine's parser, rigged to remember instead of leaving."""

    def __init__(self, engine):
        import extract_options

        self.engine = engine
        self.front, self.leaf = extract_options.build(engine)
        self.dests = [action.dest for action in self.leaf._actions if action.option_strings]
        self.seen = None
        for parser in (self.front, self.leaf):
            parser.error = self.refuse
            parser.exit = self.leave
            parser._print_message = lambda *_a, **_k: None
            parser.print_help = lambda *_a, **_k: None
        known = self.front.parse_known_args

        def remember(args=None, namespace=None):
            self.seen = known(args, namespace)
            return self.seen

        self.front.parse_known_args = remember
        self.leaf.set_defaults(**dict.fromkeys(self.dests, MARK))

    @staticmethod
    def refuse(message):
        raise Complaint(message, 2)

    @staticmethod
    def leave(status=0, message=None):
        raise Complaint(message or "exit", status)

    def parse(self, argv):
        if self.engine == "vllm":
            return self.front.parse_args(["serve", "MODEL", *argv])
        line = ["--model-path", "MODEL", *argv]
        if "--config" in line:
            raise FileNotFoundError("the configuration file")
        return self.front.parse_args(line)

    def answer(self, argv):
        """What the parser made of one line."""
        self.seen = None
        out = {"ok": False, "kind": None, "flags": [], "declared": None}
        namespace = None
        sink = io.StringIO()
        try:
            with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
                namespace = self.parse(argv)
            out["ok"] = True
        except Complaint as complaint:
            out["kind"], out["flags"] = named(complaint)
            if out["kind"] == "unrecognized" and self.seen is not None:
                namespace = self.seen[0]
        except BaseException as crash:  # noqa: BLE001 - whatever the engine's own code falls over with is an answer
            out["kind"] = "config_file" if "--config" in argv else f"crash {type(crash).__name__}"
        if namespace is not None:
            held = vars(namespace)
            out["declared"] = {dest: plain(held[dest]) for dest in self.dests if held.get(dest, MARK) is not MARK}
        return out


def named(complaint):
    """A complaint's kind and the spellings in it."""
    text = complaint.text
    if complaint.status == 0:
        return "exit", []
    kind = next((kind for words, kind in KINDS if words in text), "invalid_value" if text.startswith("argument ") else "other")
    flags = text[len("argument ") :].split(":", 1)[0].split("/") if text.startswith("argument ") else []
    return kind, flags


def plain(value):
    """A value that JSON can carry."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    # No more than the type: addresses and identities are others in every process.
    return f"<{type(value).__name__}>"


def main(words):
    """Answer every question on standard input."""
    engine, rest = words[0], words[1:]
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    while rest:
        option = rest.pop(0)
        if option == "--argparse":
            other_argparse(rest.pop(0))
        elif option == "--source":
            sys.path.insert(0, rest.pop(0))
        elif option == "--site":
            sys.path.insert(1, rest.pop(0))
            older_sglang()
        else:
            raise SystemExit(f"unknown option {option}")
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.argv = ["ask_parser"]
    asker = Asker(engine)
    for text in sys.stdin:
        if text.strip():
            print(json.dumps(asker.answer(json.loads(text)["argv"])), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
