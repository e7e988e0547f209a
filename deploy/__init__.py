"""The manifests of an installation, as package data, and the code that puts them together without kustomize."""
