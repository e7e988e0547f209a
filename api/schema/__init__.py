"""Structural schemas as apiextensions/v1 applies them: defaulting, pruning and validation, over plain JSON.

Nothing here talks to a cluster. The embedded cluster, `mdctl crds --check` and the tests all go through these three functions, so a CRD
behaves here as it does on an API server. A schema is the JSON under `openAPIV3Schema`; an object is what `json.loads` makes of it. All
three are pure: they return a new value and share what they left alone.

The order an API server keeps is prune, default, (mutating webhooks, prune, default,) validate.
"""

from api.schema.defaulting import default
from api.schema.errors import FieldError
from api.schema.pruning import prune
from api.schema.validation import validate

__all__ = ["FieldError", "default", "prune", "validate"]
