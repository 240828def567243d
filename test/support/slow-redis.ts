import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type Test } from 'tap'

/** Starts a simulated network between a test and a server; at first it is a good one. */
export async function slowRedis (t: Test, behind: { readonly port: number, readonly url: string }): Promise<SlowRedis> {
  const slow = new SlowRedis(behind)
  t.teardown(async () => {
    await slow.close()
  })
  await slow.listen()
  return slow
}

interface Gate {
  readonly released: Promise<void>
  readonly release: () => void
}

/** A TCP proxy on the loopback; every property may change at run time. */
export class SlowRedis {
  /** Delay of every response. */
  delayMs = 0
  /** Response in place of the server's, for any bytes of a client; undefined forwards them. */
  scriptedResponse: ((chunk: Buffer) => Buffer | string | undefined) | undefined
  /** True to close new connections at once. */
  isRejecting = false
  readonly #behind: { readonly port: number, readonly url: string }
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #connected = 0
  #received = ''
  #gate: Gate | undefined

  constructor (behind: { readonly port: number, readonly url: string }) {
    this.#behind = behind
    this.#server = createServer(client => {
      this.#accept(client)
    })
  }

  get port (): number {
    return (this.#server.address() as AddressInfo).port
  }

  get host (): string {
    return `127.0.0.1:${this.port}`
  }

  /** Address with the server's password. */
  get url (): string {
    return this.#behind.url.replace(/\d+$/, String(this.port))
  }

  /** Number of connections so far. */
  get connected (): number {
    return this.#connected
  }

  /** Commands received since responses are withheld. */
  get received (): string {
    return this.#received
  }

  /** Withholds all responses from now on; the server still gets commands. */
  withhold (): void {
    if (this.#gate !== undefined) return
    this.#gate = newGate()
    this.#received = ''
  }

  /** Sends withheld responses in order. */
  release (): void {
    this.#gate?.release()
    this.#gate = undefined
  }

  /** Resets all connections; accepts new ones unless it is rejecting. */
  dropConnections (): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  async listen (): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  async close (): Promise<void> {
    this.release()
    for (const socket of this.#sockets) socket.destroy()
    await new Promise(resolve => {
      this.#server.close(resolve)
    })
  }

  #accept (client: Socket): void {
    this.#connected++
    this.#track(client)
    if (this.isRejecting) {
      client.resetAndDestroy()
      return
    }
    const server = this.#track(connect(this.#behind.port, '127.0.0.1'))
    client.on('close', () => {
      server.destroy()
    })
    server.on('close', () => {
      client.destroy()
    })
    let sent = Promise.resolve()
    const send = (bytes: Buffer | string): void => {
      const dueMs = performance.now() + this.delayMs
      sent = sent.then(async () => {
        const leftMs = dueMs - performance.now()
        if (leftMs > 0) await pause(leftMs, undefined, { ref: false })
        await this.#gate?.released
        if (!client.destroyed) client.write(bytes)
      })
    }
    client.on('data', chunk => {
      if (this.#gate !== undefined) this.#received += chunk.toString('latin1')
      const own = this.scriptedResponse?.(chunk)
      if (own === undefined) server.write(chunk)
      else send(own)
    })
    server.on('data', send)
  }

  #track (socket: Socket): Socket {
    this.#sockets.add(
      socket.setNoDelay().on('error', () => {}).on('close', () => {
        this.#sockets.delete(socket)
      })
    )
    return socket
  }
}

function newGate (): Gate {
  let release = (): void => {}
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  return { released, release }
}
