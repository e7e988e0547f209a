"""Measurements of the running product, beside peers, in one run. Figures are printed and written; nothing here asserts a time."""
