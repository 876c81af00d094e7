# Two images: `operator` (kopf, no torch) and `runtime` (torch, the runtime, the examples).
#   docker build --target operator --tag omnilearn-operator .
# `make images` builds both, also where there is no Docker engine. docs/install.md has the arguments.
# Needs BuildKit, or buildah. No stage fetches anything but Python packages, each pinned with its hashes.
ARG BASE=python:3.11-slim-bookworm

# What both images have: a user without rights, and an empty virtual environment that packages are copied into.
FROM ${BASE} AS base
RUN echo 'omnilearn:x:65532:65532:omnilearn:/tmp:/usr/sbin/nologin' >> /etc/passwd \
    && echo 'omnilearn:x:65532:' >> /etc/group \
    && python3 -m venv --without-pip /opt/omnilearn
# The root file system may be read-only: whoever wants to keep something (torch's caches) has /tmp.
ENV PATH=/opt/omnilearn/bin:$PATH \
    HOME=/tmp \
    USER=omnilearn \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# uv, and the runtime's requirements in two parts: torch is large and changes rarely, so it gets a layer of its own.
FROM base AS tools
ARG INDEX=""
ARG SSL_CERT_FILE=""
COPY requirements/uv.txt requirements/runtime.txt /requirements/
RUN python3 -m venv /tools \
    && /tools/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes \
        ${INDEX:+--index-url "$INDEX"} ${SSL_CERT_FILE:+--cert "$SSL_CERT_FILE"} -r /requirements/uv.txt
RUN awk '/^[a-z]/ { own = /^(torch==|triton==|nvidia-|cuda-)/ } \
        { print > (own ? "/requirements/torch.txt" : "/requirements/others.txt") }' /requirements/runtime.txt

# Bytecode is made here, because a read-only file system cannot keep it later. It carries a hash instead of the time of
# its source: layers may change times, and torch would be compiled at every start.
FROM base AS torch
ARG INDEX=""
ARG TORCH_INDEX=""
ARG SSL_CERT_FILE=""
ARG UV_CACHE_DIR=/root/.cache/uv
COPY --from=tools /requirements/torch.txt /opt/omnilearn/torch.txt
# An index of its own for torch (one for CPUs only, say) has other files than the hashes know, and needs no CUDA.
RUN --mount=type=bind,from=tools,source=/tools,target=/tools --mount=type=cache,target=/root/.cache/uv \
    export PYC_INVALIDATION_MODE=UNCHECKED_HASH UV_LINK_MODE=copy; \
    install="/tools/bin/uv pip install --python /opt/omnilearn/bin/python --compile-bytecode --no-deps"; \
    if [ -n "$TORCH_INDEX" ]; then \
        $install --index-url "$TORCH_INDEX" "$(awk '/^torch==/ { print $1 }' /opt/omnilearn/torch.txt)"; \
    else \
        $install ${INDEX:+--index-url "$INDEX"} --require-hashes -r /opt/omnilearn/torch.txt; \
    fi

FROM base AS runtime-packages
ARG INDEX=""
ARG SSL_CERT_FILE=""
ARG UV_CACHE_DIR=/root/.cache/uv
COPY --from=tools /requirements/others.txt /requirements/others.txt
# pip is for those who build on this image.
RUN --mount=type=bind,from=tools,source=/tools,target=/tools --mount=type=cache,target=/root/.cache/uv \
    export PYC_INVALIDATION_MODE=UNCHECKED_HASH UV_LINK_MODE=copy; \
    /opt/omnilearn/bin/python -m ensurepip --default-pip && \
    /tools/bin/uv pip install --python /opt/omnilearn/bin/python --compile-bytecode --no-deps --require-hashes \
        ${INDEX:+--index-url "$INDEX"} -r /requirements/others.txt

FROM base AS operator-packages
ARG INDEX=""
ARG SSL_CERT_FILE=""
ARG UV_CACHE_DIR=/root/.cache/uv
COPY requirements/operator.txt /requirements/operator.txt
RUN --mount=type=bind,from=tools,source=/tools,target=/tools --mount=type=cache,target=/root/.cache/uv \
    export PYC_INVALIDATION_MODE=UNCHECKED_HASH UV_LINK_MODE=copy; \
    /tools/bin/uv pip install --python /opt/omnilearn/bin/python --compile-bytecode --no-deps --require-hashes \
        ${INDEX:+--index-url "$INDEX"} -r /requirements/operator.txt

# The project itself, a wheel of about a megabyte; what builds it is pinned like everything else.
FROM base AS project
ARG INDEX=""
ARG SSL_CERT_FILE=""
ARG UV_CACHE_DIR=/root/.cache/uv
COPY requirements/dev.txt /requirements/dev.txt
COPY pyproject.toml README.md LICENSE /source/
COPY operator /source/operator
COPY runtime /source/runtime
RUN --mount=type=bind,from=tools,source=/tools,target=/tools --mount=type=cache,target=/root/.cache/uv \
    export PYC_INVALIDATION_MODE=UNCHECKED_HASH UV_LINK_MODE=copy; \
    /tools/bin/uv build --quiet --wheel --python python3 --require-hashes --build-constraints /requirements/dev.txt \
        ${INDEX:+--index-url "$INDEX"} --out-dir /wheels /source \
    && /tools/bin/uv pip install --python /opt/omnilearn/bin/python --compile-bytecode --no-deps /wheels/*.whl

FROM base AS operator
COPY --from=operator-packages /opt/omnilearn /opt/omnilearn
COPY --from=project /opt/omnilearn /opt/omnilearn
ARG VERSION=""
LABEL org.opencontainers.image.title="omnilearn-operator" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.licenses="Apache-2.0"
EXPOSE 7443 8080 9090
USER 65532:65532
ENTRYPOINT ["omnilearn-operator"]

FROM torch AS runtime
COPY --from=runtime-packages /opt/omnilearn /opt/omnilearn
COPY --from=project /opt/omnilearn /opt/omnilearn
COPY examples /examples
ARG VERSION=""
LABEL org.opencontainers.image.title="omnilearn-runtime" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /examples
USER 65532:65532
CMD ["python"]
