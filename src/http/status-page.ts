import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { type FastifyInstance } from 'fastify'

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8'
}

// The page shows what nodes have said of themselves, and nothing of that may ever run: what it loads, runs and asks is
// this listener's own.
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

/** Adds the page for people, with the files that it is made of, from memory: none is read after the start. */
export function addStatusPage (app: FastifyInstance): void {
  const folder = join(import.meta.dirname, 'page')
  for (const name of readdirSync(folder)) {
    const body = readFileSync(join(folder, name))
    const type = types[extname(name)]
    // By relative addresses, so that it may lie behind a prefix of whoever stands before it.
    app.get(
      name === 'status.html' ? '/status' : `/status/${name}`,
      async (_request, reply) => await reply.headers({ ...headers, 'content-type': type }).send(body)
    )
  }
}
