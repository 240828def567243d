# Uses Node.js 24, the newest LTS release at the last update. Bases are pinned by the digest of their index of
# platforms; CONTRIBUTING.md says where the digests come from. varve has no native code, so one build on the
# builder's platform serves every target platform.
FROM --platform=$BUILDPLATFORM node:24.21.0-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --include=dev --ignore-scripts --no-audit --no-fund
COPY LICENSE README.md CHANGELOG.md SECURITY.md ./
COPY scripts scripts
COPY sandbox sandbox
COPY src src
COPY config config
COPY docs docs
# Copies the packed package and its run-time dependencies only, readable by every user whatever the umask of the
# checkout. Type declarations and source maps are a third of the dependencies and never run, so they are deleted.
RUN npm run build \
  && npm prune --omit=dev --ignore-scripts --no-audit --no-fund \
  && npm pack --ignore-scripts --silent \
  && mkdir -p /image/app /image/usr/local/bin /image-cache/varve \
  && tar -xzf varve-*.tgz -C /image/app --strip-components=1 \
  && mv node_modules /image/app/ \
  && find /image/app/node_modules -type f \( -name '*.ts' -o -name '*.cts' -o -name '*.mts' -o -name '*.map' \) -delete \
  && ln -s /app/dist/cli.js /image/usr/local/bin/varve \
  && chmod -R a+rX /image && chmod a+x /image/app/dist/cli.js

# Takes jemalloc for the target processor without running anything of it: glibc keeps what large responses took.
ARG TARGETARCH
RUN dpkg --add-architecture "$TARGETARCH" \
  && apt-get update \
  && apt-get download "libjemalloc2:$TARGETARCH" \
  && dpkg-deb --extract libjemalloc2_*.deb /jemalloc \
  && mkdir -p /image/usr/local/lib \
  && cp /jemalloc/usr/lib/*/libjemalloc.so.2 /image/usr/local/lib/

# Provides the `node` binary alone: the final image needs no npm, yarn or compiler headers.
FROM node:24.21.0-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe AS node

# The base of the Node.js image. Node.js 26 also needs `libatomic1`, which this base lacks.
FROM debian:trixie-20260918-slim@sha256:a99cfc517144bc59b1978475ec53b46ecabec7e43635402ee5b77cc54cd1b20a
LABEL org.opencontainers.image.title="varve" \
  org.opencontainers.image.description="The caching read proxy for ledger nodes: history is immutable, so read it once." \
  org.opencontainers.image.version="0.1.0" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.base.name="docker.io/library/debian:trixie-20260918-slim" \
  org.opencontainers.image.base.digest="sha256:a99cfc517144bc59b1978475ec53b46ecabec7e43635402ee5b77cc54cd1b20a"
COPY --from=node /usr/local/LICENSE /usr/local/share/doc/node/LICENSE
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=build /image /
# A new volume at /var/cache/varve, the folder for the disk tier, gets the owner that the folder has here.
COPY --from=build --chown=1000:1000 /image-cache/ /var/cache/
# Environment variables override a mounted file, so both listeners are reachable whatever its `listen` says; flags
# override these variables.
ENV NODE_ENV=production LD_PRELOAD=/usr/local/lib/libjemalloc.so.2 VARVE_LISTEN=0.0.0.0:8080 VARVE_ADMIN=0.0.0.0:9464
EXPOSE 8080 9464
# The other files belong to root and varve writes none, so `--read-only` works. The user is numeric, since Kubernetes cannot
# verify runAsNonRoot for a name.
USER 1000:1000
STOPSIGNAL SIGTERM
# Checks liveness, not readiness: an orchestrator must not restart a varve whose upstreams are down.
# Bash asks by itself: a Node.js that starts for each check costs a hundred times as much processor time.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/${VARVE_ADMIN##*:} && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ $status = 200 ]"]
# Runs without a shell, so that signals reach varve, which handles them as PID 1 too.
ENTRYPOINT ["node", "/app/dist/cli.js"]
CMD ["serve"]
