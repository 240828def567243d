// Forwards reads with the library that varve forwards other routes with, by its defaults. Runs as its own process; the
// argument is the upstream.
import { fastify } from 'fastify'
import httpProxy from '@fastify/http-proxy'

const app = fastify()
await app.register(httpProxy, { upstream: process.argv[2] })
console.log(`forwards on ${await app.listen({ host: '127.0.0.1', port: 0, backlog: 4096 })}`)
