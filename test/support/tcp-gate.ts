import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type Test } from 'tap'
import { Deferred } from '../../src/peers/deferred.js'
import { reset } from './reset.js'

/** Starts a gate before a Redis on a free port; at first it lets everything pass. */
export async function slowRedis (t: Test, behind: { readonly url: string }): Promise<TcpGate> {
  const gate = new TcpGate(behind.url)
  t.teardown(async () => {
    await gate.close()
  })
  await gate.open()
  return gate
}

/** A proxy of connections before a server: a slow, cut or silent network. Properties may change at any time. */
export class TcpGate {
  /** Delay of every response. */
  delayMs = 0
  /** Response in place of the server's, for any bytes of a client; undefined forwards them. */
  scriptedResponse: ((chunk: Buffer) => Buffer | string | undefined) | undefined
  /** True to reset new connections at once. */
  isRejecting = false
  readonly #sockets = new Set<Socket>()
  readonly #pending = new Set<Socket>()
  #target: string
  #port: number
  #server: Server | undefined
  #isFrozen = false
  #connected = 0
  #received = ''
  #withheld: Deferred<void> | undefined

  /** Leads to an address; without a port it takes a free one. */
  constructor (target: string, port = 0) {
    this.#target = target
    this.#port = port
  }

  get port (): number {
    return this.#port
  }

  get host (): string {
    return `127.0.0.1:${this.#port}`
  }

  /** Address of the gate, with the server's password. */
  get url (): string {
    return this.#target.replace(/\d+$/, String(this.#port))
  }

  /** Number of connections so far. */
  get connected (): number {
    return this.#connected
  }

  /** Bytes received since responses are withheld. */
  get received (): string {
    return this.#received
  }

  /** Accepts connections. */
  async open (): Promise<void> {
    if (this.#server !== undefined) return
    this.#server = createServer(client => {
      this.#take(client)
    }).listen(this.#port, '127.0.0.1')
    await once(this.#server, 'listening')
    this.#port = (this.#server.address() as AddressInfo).port
  }

  /** Closes every connection and rejects new ones. */
  async close (): Promise<void> {
    const server = this.#server
    this.#server = undefined
    this.release()
    this.thaw()
    this.dropConnections()
    if (server !== undefined) {
      await new Promise(resolve => {
        server.close(resolve)
      })
    }
    // A reset waits for unsent bytes, and a peer that is gone takes none: the test's process would not end.
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Withholds all responses from now on; the server still gets requests. */
  withhold (): void {
    if (this.#withheld !== undefined) return
    this.#withheld = new Deferred()
    this.#received = ''
  }

  /** Sends withheld responses in order. */
  release (): void {
    this.#withheld?.resolve()
    this.#withheld = undefined
  }

  /** Accepts bytes and forwards nothing, even in the middle of a response. */
  freeze (): void {
    this.#isFrozen = true
    for (const socket of this.#sockets) socket.pause()
  }

  /** Resumes. */
  thaw (): void {
    this.#isFrozen = false
    for (const socket of this.#sockets) socket.resume()
    for (const client of this.#pending) this.#join(client)
    this.#pending.clear()
  }

  /** Resets every connection, as a restarting server does. */
  dropConnections (): void {
    for (const socket of this.#sockets) reset(socket)
  }

  /** Leads to another server from the next connection on. */
  setTarget (target: string): void {
    this.#target = target
  }

  #take (client: Socket): void {
    this.#connected++
    this.#track(client)
    if (this.isRejecting) {
      reset(client)
      return
    }
    if (!this.#isFrozen) return this.#join(client)
    client.pause()
    this.#pending.add(client)
  }

  #join (client: Socket): void {
    if (client.destroyed) return
    const server = this.#track(connect(Number(new URL(this.#target).port), '127.0.0.1'))
    client.on('close', () => {
      server.destroy()
    })
    client.on('end', () => {
      server.end()
    })
    let sent = Promise.resolve()
    let queued = 0
    const send = (bytes: Buffer | string): void => {
      // Writes at once if nothing waits, so that the end of a response never overtakes its last bytes.
      if (queued === 0 && this.delayMs === 0 && this.#withheld === undefined) {
        client.write(bytes)
        return
      }
      queued++
      const dueMs = performance.now() + this.delayMs
      sent = sent.then(async () => {
        const leftMs = dueMs - performance.now()
        if (leftMs > 0) await pause(leftMs, undefined, { ref: false })
        await this.#withheld?.promise
        if (!client.destroyed) client.write(bytes)
        queued--
      })
    }
    client.on('data', chunk => {
      if (this.#withheld !== undefined) this.#received += chunk.toString('latin1')
      const own = this.scriptedResponse?.(chunk)
      if (own === undefined) server.write(chunk)
      else send(own)
    })
    server.on('data', send)
    server.on('end', () => {
      client.end()
    })
    server.on('close', () => {
      client.destroy()
    })
  }

  #track (socket: Socket): Socket {
    this.#sockets.add(socket)
    return socket.setNoDelay().on('error', () => {}).on('close', () => {
      this.#sockets.delete(socket)
      this.#pending.delete(socket)
    })
  }
}
