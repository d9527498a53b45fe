# An image of plantd: docker build --tag plantd .

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The caches are not part of any layer, so the program is copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package plantd && cp target/release/plantd /plantd

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="plantd" \
      org.opencontainers.image.description="Plant store in one binary: what it acknowledges over HTTP is on disk" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
# The number of the user is fixed, so that it owns the volume of an older image too.
RUN groupadd --gid 10001 plantd && \
    useradd --uid 10001 --gid plantd --no-create-home --home-dir /var/lib/plantd --shell /usr/sbin/nologin plantd && \
    install --directory --owner plantd --group plantd --mode 0750 /var/lib/plantd
# The authorities, for TLS with PostgreSQL.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /plantd /usr/bin/plantd
USER 10001:10001
ENV PLANTD_LISTEN=0.0.0.0:8080 PLANTD_DATA=/var/lib/plantd
VOLUME /var/lib/plantd
EXPOSE 8080
STOPSIGNAL SIGTERM
# A start verifies every file of the store before it listens.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m CMD ["plantd", "health"]
ENTRYPOINT ["plantd"]
