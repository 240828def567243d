import { once } from 'node:events'
import { connect } from 'node:net'
import { Pool } from 'undici'
import { ask } from './ask.js'

/**
 * A server that is measured, or asked by one that is: how it is spoken to, and whether an answer came out of its cache.
 */
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
    this.#pool = new Pool(url, { connections: 64, pipelining: 1, headersTimeout: 30_000, bodyTimeout: 30_000 })
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

/** Whether a port of the loopback takes connections. */
export async function takesConnections (port) {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } finally {
    socket.destroy()
  }
}
