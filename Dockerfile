# The decision service: docs/containers.md. Nothing is compiled at build time; the interpreter is the one that every release is tested on.
# The base is named by its digest, as in --build-arg PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:…, and every package by its hashes.
ARG PYTHON_IMAGE

FROM ${PYTHON_IMAGE} AS build
ARG PYTHON_IMAGE
RUN case "${PYTHON_IMAGE}" in *@sha256:*) ;; *) echo "PYTHON_IMAGE must end in @sha256:…, but is ${PYTHON_IMAGE}" >&2; exit 1 ;; esac
WORKDIR /build
COPY requirements/build.txt requirements/service.txt requirements/
RUN python -m venv /build/tools \
 && /build/tools/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r requirements/build.txt \
 && python -m venv /opt/tightrope \
 && /opt/tightrope/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r requirements/service.txt
COPY pyproject.toml README.md LICENSE ./
COPY clients/python clients/python
COPY src src
COPY examples examples
RUN /build/tools/bin/python -m pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist ./clients/python . \
 && /opt/tightrope/bin/python -m pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index dist/*.whl \
 && /opt/tightrope/bin/python -m pip check \
 && /opt/tightrope/bin/python -m pip uninstall --yes pip \
 && /opt/tightrope/bin/tightrope version

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/tightrope /opt/tightrope
# Journals of SQLite, compiled code: the only folders that are written to. Mount something on both, and the root may be read-only.
RUN mkdir -p /etc/tightrope /var/lib/tightrope /var/cache/tightrope \
 && chown 10001:10001 /var/lib/tightrope /var/cache/tightrope \
 && chmod 700 /var/lib/tightrope /var/cache/tightrope
ENV PATH=/opt/tightrope/bin:$PATH \
    HOME=/var/cache/tightrope \
    NUMBA_CACHE_DIR=/var/cache/tightrope \
    MPLCONFIGDIR=/var/cache/tightrope \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /var/lib/tightrope
USER 10001:10001
EXPOSE 8080
# A first start compiles for the machine's processor before it listens.
HEALTHCHECK --interval=10s --timeout=3s --start-period=180s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["tightrope"]
CMD ["serve", "/etc/tightrope/spec.toml", "--host", "0.0.0.0", "--port", "8080", "--keys", "/etc/tightrope/keys.json", "--data", "/var/lib/tightrope", "--log", "json"]
