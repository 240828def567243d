import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { type FastifyInstance } from 'fastify'

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8'
}

// Allows only this listener's own files: the page shows upstreams' texts, which must never run.
const headers = {
  'content-security-policy':
    'default-src \'none\'; script-src \'self\'; style-src \'self\'; connect-src \'self\'; img-src \'self\' ' +
    'data:; base-uri \'none\'; form-action \'none\'; frame-ancestors \'none\'',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin'
}

/** Adds the status page with its files, read once at start. */
export function addStatusPageRoutes (app: FastifyInstance): void {
  const folder = join(import.meta.dirname, 'page')
  for (const name of readdirSync(folder)) {
    const body = readFileSync(join(folder, name))
    const type = types[extname(name)]
    // The page links its files by relative URLs, so that a proxy may serve it under a prefix.
    app.get(
      name === 'status.html' ? '/status' : `/status/${name}`,
      async (_request, reply) => await reply.headers({ ...headers, 'content-type': type }).send(body)
    )
  }
}
