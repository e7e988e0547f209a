"""Readings that no Kubernetes object carries: engine metrics, forward probes, router views, drain gauges. An error is a fact of its own."""
