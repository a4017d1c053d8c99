# The image of Lodesman: `make image`. Both stages are Debian 12, so that the binary finds the C library it was linked to.
ARG RUST=1.95.0

FROM rust:${RUST}-bookworm AS build
ARG RUST
# What --version and llm_d_epp_info say; .git is not there to ask.
ARG COMMIT=unknown
ENV LODESMAN_COMMIT=${COMMIT}
# The toolchain that is there, without the components that rust-toolchain.toml wants for development.
ENV RUSTUP_TOOLCHAIN=${RUST}
WORKDIR /lodesman
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/lodesman/target \
    cargo build --locked --profile dist --package lodesman --bin lodesman && \
    cp target/dist/lodesman /usr/local/bin/ && \
    scripts/shell-files.sh /usr/local/bin/lodesman /shell-files

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /usr/local/bin/lodesman /usr/local/bin/
COPY --from=build /shell-files /usr/local/share
# A number, so that runAsNonRoot can be checked.
USER 65532:65532
EXPOSE 9002 9003 9090
ENTRYPOINT ["/usr/local/bin/lodesman"]
