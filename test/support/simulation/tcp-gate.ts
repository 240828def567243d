import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'

interface Pair {
  readonly client: Socket
  readonly upstream: Socket
}

/** A proxy before an upstream at a fixed address: it can reject connections, or accept them and stay silent. */
export class TcpGate {
  readonly port: number
  readonly #sockets = new Set<Socket>()
  readonly #pending = new Set<Socket>()
  #target: number
  #server: Server | undefined
  #isFrozen = false

  constructor (port: number, target: number) {
    this.port = port
    this.#target = target
  }

  /** Accepts connections. */
  async open (): Promise<void> {
    const server = createServer(client => {
      this.#take(client)
    })
    server.listen(this.port, '127.0.0.1')
    await once(server, 'listening')
    this.#server = server
  }

  /** Closes every connection and rejects new ones. */
  async close (): Promise<void> {
    const server = this.#server
    this.#server = undefined
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

  /** Closes every connection, as a restarting node does. */
  dropConnections (): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  /** Leads to another node from the next connection on. */
  setTarget (target: number): void {
    this.#target = target
  }

  #take (client: Socket): void {
    this.#withhold(client)
    if (!this.#isFrozen) return this.#join(client)
    client.pause()
    this.#pending.add(client)
  }

  #join (client: Socket): void {
    if (client.destroyed) return
    const upstream = connect(this.#target, '127.0.0.1')
    this.#withhold(upstream)
    this.#tie({ client, upstream })
  }

  #tie ({ client, upstream }: Pair): void {
    for (const [from, to] of [[client, upstream], [upstream, client]] as const) {
      from.on('data', (bytes: Buffer) => {
        to.write(bytes)
      })
      from.on('end', () => {
        to.end()
      })
      from.on('close', () => {
        to.destroy()
      })
    }
  }

  #withhold (socket: Socket): void {
    this.#sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#sockets.delete(socket)
      this.#pending.delete(socket)
    })
  }
}
