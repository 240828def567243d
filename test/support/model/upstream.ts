import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { type Fault, type Sandbox, startSandbox } from '#sandbox'
import { freePort } from '../free-port.js'
import { type Chain, type Era, type LedgerForms, type LedgerMoment } from './chain.js'

/** Condition of an upstream: `unhealthy` responds, but wrongly. */
type Condition = 'up' | 'down' | 'unhealthy'

/** State of an upstream from a time on; a down one has what it had. */
export interface UpstreamState extends Required<LedgerMoment> {
  readonly at: number
  readonly condition: Condition
  readonly era: number
  readonly release: string
}

/** An upstream behind an address that stays, and the exact record of its states. */
export class FaultyUpstream {
  readonly name: string
  readonly #forms: LedgerForms
  readonly #gate: TcpGate
  #sandbox: Sandbox
  #era: Era
  #condition: Condition = 'up'
  #lag = 0
  #isStalled = false
  #states: UpstreamState[] = []

  private constructor (name: string, era: Era, forms: LedgerForms, sandbox: Sandbox, gate: TcpGate) {
    this.name = name
    this.#era = era
    this.#forms = forms
    this.#sandbox = sandbox
    this.#gate = gate
    this.#note()
  }

  static async start (name: string, { current }: Chain, forms: LedgerForms, release: string): Promise<FaultyUpstream> {
    const sandbox = await startSandboxOn(current, forms, release)
    const gate = new TcpGate(await freePort(), portOf(sandbox))
    await gate.open()
    return new FaultyUpstream(name, current, forms, sandbox, gate)
  }

  get url (): string {
    return `http://127.0.0.1:${this.#gate.port}`
  }

  /** Present state. */
  get state (): UpstreamState {
    return this.#states[this.#states.length - 1] as UpstreamState
  }

  /** True unless it is up and keeps up. */
  get isTroubled (): boolean {
    return this.#condition !== 'up' || this.#lag > 0 || this.#isStalled
  }

  get requests (): Sandbox['requests'] {
    return this.#sandbox.requests
  }

  /** Returns the state at a time, and those after it. */
  statesSince (time: number): readonly UpstreamState[] {
    return this.#states.slice(Math.max(0, this.#states.findLastIndex(({ at }) => at <= time)))
  }

  /** Follows the growth of its chain. */
  grow (): void {
    const { ledger } = this.#sandbox
    if (this.#isStalled || ledger.height >= this.#era.archive.height) return
    ledger.grow(this.#era.archive.height - ledger.height)
    this.#note()
  }

  pruneTo (height: number): void {
    this.#sandbox.ledger.pruneTo(height)
    this.#note()
  }

  upgrade (release: string): void {
    this.#sandbox.ledger.release = release
    this.#note()
  }

  // Records losses before they happen and recoveries after, so that no state counts as healthy by mistake.

  async kill (): Promise<void> {
    this.#become('down')
    await this.#gate.close()
  }

  /** Accepts bytes and responds to none. */
  freeze (): void {
    this.#become('down')
    this.#gate.freeze()
  }

  fail (fault: Fault): void {
    this.#become('unhealthy')
    this.#sandbox.faults.add(fault)
  }

  /** Falls behind at once and stays behind. */
  lag (blocks: number): void {
    this.#sandbox.faults.add({ kind: 'lag', blocks })
    this.#lag = Math.max(this.#lag, blocks)
    this.#note()
  }

  /** Stops at its head while the others grow. */
  stall (): void {
    this.#isStalled = true
  }

  /** Ends all faults and catches up with its chain. */
  async recover (): Promise<void> {
    this.#sandbox.faults.clear()
    this.#lag = 0
    this.#isStalled = false
    this.grow()
    this.#gate.thaw()
    await this.#gate.open()
    this.#become('up')
  }

  /** Comes back on another chain, or on the same with its whole history. */
  async restore (era: Era): Promise<void> {
    await this.kill()
    const sandbox = await startSandboxOn(era, this.#forms, this.state.release)
    await this.#sandbox.close()
    this.#sandbox = sandbox
    this.#era = era
    this.#gate.setTarget(portOf(sandbox))
    await this.recover()
  }

  async close (): Promise<void> {
    await this.#gate.close()
    await this.#sandbox.close()
  }

  #become (condition: Condition): void {
    this.#condition = condition
    this.#note()
  }

  #note (): void {
    const { ledger } = this.#sandbox
    const { blockHeight, oldestBlockHeight } = ledger.position(Math.max(0, ledger.height - this.#lag))
    this.#states.push({
      at: performance.now(),
      condition: this.#condition,
      era: this.#era.index,
      release: ledger.release,
      height: Number(blockHeight),
      oldest: Number(oldestBlockHeight)
    })
  }
}

/** Starts an embedded node on the chain of an era, up to its current head. */
async function startSandboxOn (
  { settings, startUsec, archive }: Era,
  forms: LedgerForms,
  release: string
): Promise<Sandbox> {
  // Passes startUsec to the ledger, although it is no public option.
  const options = { ...settings, release, blocks: archive.height + 1, prunedBlocks: 0 }
  const sandbox = await startSandbox(Object.assign(options, { startUsec }))
  Object.assign(sandbox.ledger, forms)
  return sandbox
}

const portOf = ({ url }: Sandbox): number => Number(new URL(url).port)

interface Pair {
  readonly client: Socket
  readonly upstream: Socket
}

/** A proxy before an upstream at a fixed address: it can reject connections, or accept them and stay silent. */
class TcpGate {
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
    if (this.#server !== undefined) return
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
