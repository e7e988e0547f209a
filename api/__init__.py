"""The resource: keys, projected objects, status, and the vocabulary of conditions and reasons. Knows no other room."""
