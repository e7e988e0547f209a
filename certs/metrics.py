"""What the alarms on certificates read. `certwatcher_…` are the names that controller-runtime's dashboards know."""

from typing import Final

from prometheus_client import Counter, Gauge

EXPIRY: Final = Gauge(
    "modelwarden_certificate_expiry_seconds", "Seconds until the certificate expires; negative once it has.", ["certificate"]
)
READ: Final = Counter("certwatcher_read_certificate_total", "Certificates read and taken into service.")
READ_ERRORS: Final = Counter(
    "certwatcher_read_certificate_errors_total", "Sets that were read and could not be used, and reads that failed."
)
STEPS: Final = Counter("modelwarden_certificate_steps_total", "Steps taken on the certificate.", ["step"])
PUBLISHED: Final = Counter(
    "modelwarden_certificate_publications_total", "caBundles written, absent, or not writable.", ["configuration", "result"]
)
