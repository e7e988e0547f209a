"""Defaults that need a look at another object; every other default is the schema's. Pure: types are handed in.

Source: admission facts 4, decisions D5.
"""

from webhooks.defaulting.accelerator import default_accelerators, types_to_read

__all__ = ["default_accelerators", "types_to_read"]
