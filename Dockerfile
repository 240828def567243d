# Nothing in it is made for one kind of processor, so it is built once, on whatever builds, for all of them.
FROM --platform=$BUILDPLATFORM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --include=dev --no-audit --no-fund
COPY tsconfig.json ./
COPY scripts scripts
COPY src src
RUN npm run build && npm prune --omit=dev --no-audit --no-fund

FROM node:24-bookworm-slim
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY config config
COPY LICENSE ./
# The environment is stronger than a mounted file, so these two hold whatever its `listen` says; a flag is stronger still.
ENV NODE_ENV=production VARVE_LISTEN=0.0.0.0:8080 VARVE_ADMIN=0.0.0.0:9464
EXPOSE 8080 9464
# The files belong to root and nothing is written, so `--read-only` works.
# By its number, since an orchestrator that wants no root cannot tell what a name means: 1000 is `node`.
USER 1000:1000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.VARVE_ADMIN.split(':').at(-1) + '/healthz').then(reply => process.exit(reply.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/app/dist/cli.js"]
CMD ["serve"]
