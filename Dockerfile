# The image: one static binary, and nothing else. It runs as a user of its own, on a root that may be read-only;
# what it keeps is in /var/lib/keymill.
#
#   docker build -t keymill .                        builds the binary, with every store, against musl
#   docker build -t keymill --target given .         takes dist/keymill-linux-$TARGETARCH and
#                                                    dist/ca-certificates.crt, as releases do
#
# The older builder (DOCKER_BUILDKIT=0) does not know the architecture: add --build-arg TARGETARCH=amd64.
#
# Without tokens, keymill listens on loopback only, and refuses any other address: compose.yaml and
# docs/install.md show how to give it one.
ARG BASE=scratch

FROM ${BASE} AS base
# An empty folder with an owner, because `scratch` has no command that could make one.
COPY --chown=65532:65532 deploy/docker/state /var/lib/keymill
ENV KEYMILL_DATA_DIR=/var/lib/keymill KEYMILL_LISTEN=:8080
USER 65532:65532
VOLUME /var/lib/keymill
EXPOSE 8080
# A start may wait for its store for 30 seconds.
HEALTHCHECK --interval=5s --timeout=4s --start-period=40s --retries=2 CMD ["/usr/bin/keymill", "health"]
ENTRYPOINT ["/usr/bin/keymill"]
CMD ["serve"]

# A binary that was built before. It comes first, so that nothing below is built for it.
FROM base AS given
ARG TARGETARCH
COPY dist/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY dist/keymill-linux-${TARGETARCH} /usr/bin/keymill

FROM rust:1-alpine AS source
# C for SQLite and the cryptography; protoc for etcd.
RUN apk add --no-cache ca-certificates musl-dev protobuf-dev
WORKDIR /source
COPY Cargo.toml Cargo.lock ./
COPY proto proto
COPY crates crates
COPY examples examples
RUN cargo build --release --locked -p keymill --features etcd

FROM base AS built
COPY --from=source /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=source /source/target/release/keymill /usr/bin/keymill
