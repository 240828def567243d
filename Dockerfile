# Node 24: the newest whose own word (process.release.lts) was that it is LTS when this was last looked at. Each base is named by its whole version; no digest
# stands here, since none could be looked up where this was written: what builds for others adds it.
# Nothing in varve is made for one kind of processor, so it is built once, on whatever builds, for all of them.
FROM --platform=$BUILDPLATFORM node:24.21.0-trixie-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --include=dev --ignore-scripts --no-audit --no-fund
COPY tsconfig.json LICENSE README.md CHANGELOG.md SECURITY.md ./
COPY scripts scripts
COPY sandbox sandbox
COPY src src
COPY config config
COPY docs docs
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund
# What the package holds and what runs with it, and nothing else; readable by anybody whatever umask the checkout was made with. What packages bring for
# whoever writes a program against them, types and maps of their source, is a third of them, and nothing of it is run.
RUN npm pack --ignore-scripts --silent \
  && mkdir -p /image/app /image/usr/local/bin \
  && tar -xzf varve-*.tgz -C /image/app --strip-components=1 \
  && mv node_modules /image/app/ \
  && find /image/app/node_modules -type f \( -name '*.ts' -o -name '*.cts' -o -name '*.mts' -o -name '*.map' \) -delete \
  && ln -s /app/dist/cli.js /image/usr/local/bin/varve \
  && chmod -R a+rX /image && chmod a+x /image/app/dist/cli.js

# Only for its `node`, by which the image below has no npm, no yarn and no compiler's headers.
FROM node:24.21.0-trixie-slim AS node

# The base of the one above. With Node 26 `libatomic1` has to come with it, which this one does not have.
FROM debian:trixie-20260918-slim
LABEL org.opencontainers.image.title="varve" \
  org.opencontainers.image.description="The caching read proxy for ledger nodes: history is immutable, so read it once." \
  org.opencontainers.image.version="0.1.0" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.base.name="docker.io/library/debian:trixie-20260918-slim"
COPY --from=node /usr/local/LICENSE /usr/local/share/doc/node/LICENSE
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=build /image /
# The environment is stronger than a mounted file, so these two hold whatever its `listen` says; a flag is stronger still.
ENV NODE_ENV=production VARVE_LISTEN=0.0.0.0:8080 VARVE_ADMIN=0.0.0.0:9464
EXPOSE 8080 9464
# The files belong to root and nothing is written, so `--read-only` works.
# By its number, since an orchestrator that wants no root cannot tell what a name means.
USER 1000:1000
STOPSIGNAL SIGTERM
# Whether the process lives, not whether it is ready: who ends what is unhealthy must not end a varve whose nodes are away.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.VARVE_ADMIN.split(':').at(-1) + '/healthz').then(reply => process.exit(reply.ok ? 0 : 1), () => process.exit(1))"]
# No shell in between: a signal reaches varve itself, which ends by it also as the first process.
ENTRYPOINT ["node", "/app/dist/cli.js"]
CMD ["serve"]
