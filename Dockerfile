# An image of one node: `docker build -t jjq .`, then `docker run -p 7575:7575 -v jjq-data:/data jjq`.
# Everything in it is pinned by hash in requirements/serve.lock; nothing runs as root.

FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements/serve.lock requirements/
RUN python -m venv /opt/jjq \
 && /opt/jjq/bin/pip install --require-hashes --no-build-isolation -r requirements/serve.lock
COPY pyproject.toml README.md LICENSE ./
COPY proto proto
COPY coldstore coldstore
COPY hotstore hotstore
COPY sharding sharding
COPY jjq jjq
RUN /opt/jjq/bin/pip install --no-deps --no-build-isolation --no-index .

FROM python:3.13-slim
RUN useradd --system --uid 7575 --home-dir /data jjq && mkdir -m 0700 /data && chown jjq /data
COPY --from=build /opt/jjq /opt/jjq
ENV PATH=/opt/jjq/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    JJQ_DATA=/data \
    JJQ_LISTEN=0.0.0.0:7575 \
    JJQ_METRICS_LISTEN=0.0.0.0:9090 \
    JJQ_LOG=json
USER jjq
VOLUME /data
EXPOSE 7575 9090
# Only the first process may write the journal, so it gets the signal itself and time to end in order.
STOPSIGNAL SIGTERM
# With TLS it takes JJQ_TLS_CA, and the certificate of the server; JJQ_SERVER names the host of that.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s CMD ["jjq", "ping", "--timeout", "5"]
ENTRYPOINT ["jjq"]
CMD ["serve"]
