# syntax=docker/dockerfile:1
# The image holds Python, one virtual environment, and nothing that a shell would be needed for. It runs as a numeric non-root user
# (kubelet can check `runAsNonRoot`) on a read-only root; only /tmp is written.
ARG PYTHON=3.13-slim-bookworm

FROM python:${PYTHON} AS build
# Set by `--build-arg PIP_INDEX_URL=…` where packages come from a mirror.
ARG PIP_INDEX_URL
# Extras of the package: `--build-arg EXTRAS=[otel]` for an image that can send traces.
ARG EXTRAS=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY api api
COPY app app
COPY certs certs
COPY controller controller
COPY deploy deploy
COPY engines engines
COPY kube kube
COPY local local
COPY webhooks webhooks
RUN pip wheel --no-deps --wheel-dir /wheels . \
 && python -m venv /opt/modelwarden \
 && /opt/modelwarden/bin/pip install --no-compile -c constraints.txt "$(echo /wheels/*.whl)${EXTRAS}" \
 # Nothing is installed at run time, and bytecode cannot be written there: compile it now.
 && /opt/modelwarden/bin/pip uninstall -y pip \
 && python -m compileall -q -j 0 /opt/modelwarden/lib

FROM python:${PYTHON}
ARG BUILD_REVISION=""
LABEL org.opencontainers.image.title="Modelwarden" \
      org.opencontainers.image.description="Admission webhooks and a status controller for ModelDeployments" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${BUILD_REVISION}"
ENV BUILD_REVISION=${BUILD_REVISION} HOME=/tmp PATH=/opt/modelwarden/bin:${PATH} \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1
COPY --from=build /opt/modelwarden /opt/modelwarden
USER 65532:65532
WORKDIR /tmp
EXPOSE 8443
STOPSIGNAL SIGTERM
ENTRYPOINT ["/opt/modelwarden/bin/mdctl"]
CMD ["serve"]
