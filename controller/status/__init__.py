"""The pure judgement of a status: `judge(snapshot)` and one module per field family.

Nothing here reads a clock, an environment or a client; import-linter holds it.
"""
