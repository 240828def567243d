import { once } from 'node:events'
import { connect } from 'node:net'
import { Pool } from 'undici'
import { ask } from './timed-request.js'

/** Server under measurement, or its upstream, with a connection pool and a test for cache hits. */
export class Peer {
  name
  url
  #program
  #pool
  #isHit

  constructor (name, url, program, isHit = () => true) {
    this.name = name
    this.url = url
    this.#program = program
    this.#isHit = isHit
    this.#pool = new Pool(url, {
      // Keeps a slow response from holding other clients' requests back.
      connections: 1024,
      pipelining: 1,
      headersTimeout: 30_000,
      bodyTimeout: 30_000,
      // Accepts the certificate of a run, which nothing but the run knows.
      connect: { rejectUnauthorized: false }
    })
  }

  get pid () {
    return this.#program.pid
  }

  async ask (request) {
    return await ask(this.#pool, request)
  }

  isHit (answer) {
    return this.#isHit(answer)
  }

  async stop () {
    await this.#pool.destroy()
    await this.#program.stop()
  }
}

/** Tests that a loopback port accepts connections; rejects while nothing listens. */
export async function takesConnections (port) {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } finally {
    socket.destroy()
  }
}
