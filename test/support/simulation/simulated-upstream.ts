import { type Test } from 'tap'
import { type Fault, type PrunedEventsMode, type Sandbox } from '#sandbox'
import { freePort } from '../free-port.js'
import { type Era } from '../model/chain.js'
import { TcpGate } from '../tcp-gate.js'
import { UpstreamHistory } from './upstream-history.js'
import { startSandboxOn } from './start-sandbox-on.js'

/** Condition of an upstream: `unhealthy` responds, but wrongly. */
export type Condition = 'up' | 'killed' | 'frozen' | 'unhealthy'

/** An upstream, and the record of its condition over time. */
export class SimulatedUpstream {
  readonly name: string
  readonly history = new UpstreamHistory()
  /** Number of blocks in its window by default. */
  readonly #windowBlocks: number
  readonly #gate: TcpGate
  #sandbox: Sandbox
  #era: Era
  #condition: Condition = 'up'
  #lagBlocks = 0
  #isStalled = false
  #queue: Promise<void> = Promise.resolve()

  private constructor (name: string, windowBlocks: number, era: Era, sandbox: Sandbox, gate: TcpGate) {
    this.name = name
    this.#windowBlocks = windowBlocks
    this.#era = era
    this.#sandbox = sandbox
    this.#gate = gate
  }

  static async start (
    t: Test,
    name: string,
    windowBlocks: number,
    era: Era,
    release: string
  ): Promise<SimulatedUpstream> {
    const sandbox = await startSandboxOn(era, windowBlocks, release)
    const gate = new TcpGate(sandbox.url, await freePort())
    await gate.open()
    const upstream = new SimulatedUpstream(name, windowBlocks, era, sandbox, gate)
    t.teardown(async () => {
      await gate.close()
      await upstream.#sandbox.close()
    })
    upstream.#note()
    return upstream
  }

  get url (): string {
    return this.#gate.url
  }

  get release (): string {
    return this.#sandbox.ledger.release
  }

  /** Era of its chain. */
  get era (): number {
    return this.#era.index
  }

  /** Its oldest version and its head. */
  get window (): { oldest: bigint, head: bigint } {
    const { oldestVersion, version } = this.#sandbox.ledger.position(
      Math.max(0, this.#sandbox.ledger.height - this.#lagBlocks)
    )
    return { oldest: oldestVersion, head: version }
  }

  /** Runs one fault at a time. */
  async runExclusively (happen: () => Promise<void>): Promise<void> {
    const mine = this.#queue.then(happen)
    this.#queue = mine.catch(() => {})
    await mine
  }

  /** Follows the growth of the chain. */
  grow (): void {
    const { ledger } = this.#sandbox
    if (this.#isStalled || ledger.height >= this.#era.archive.height) return
    ledger.grow(this.#era.archive.height - ledger.height)
    this.#note()
  }

  // Records losses before they happen and recoveries after, so that no moment counts as healthy by mistake.

  async kill (): Promise<void> {
    this.#become('killed')
    await this.#gate.close()
  }

  async restart (): Promise<void> {
    await this.#gate.open()
    this.#become('up')
  }

  freeze (): void {
    this.#become('frozen')
    this.#gate.freeze()
  }

  /** Resumes, with or without its connections. */
  thaw (isCut: boolean): void {
    if (isCut) this.#gate.dropConnections()
    this.#gate.thaw()
    this.#become('up')
  }

  injectFault (fault: Fault): void {
    this.#become('unhealthy')
    this.#sandbox.faults.add(fault)
  }

  recover (): void {
    this.#sandbox.faults.clear()
    this.#become('up')
  }

  /** Falls behind at once and stays behind. */
  lag (blocks: number): void {
    this.#lagBlocks = blocks
    this.#sandbox.faults.add({ kind: 'lag', blocks })
    this.#note()
  }

  /** Stops at its head while the others grow. */
  stall (): void {
    this.#isStalled = true
  }

  catchUp (): void {
    this.#sandbox.faults.clear()
    this.#lagBlocks = 0
    this.#isStalled = false
    this.grow()
    this.#note()
  }

  /** Prunes all but the newest blocks, with one of the known responses for pruned events. */
  prune (remainingBlocks: number, prunedEvents: PrunedEventsMode): void {
    const { ledger } = this.#sandbox
    ledger.prunedEvents = prunedEvents
    ledger.pruneTo(ledger.height - remainingBlocks)
    this.#note()
  }

  upgrade (release: string): void {
    this.#sandbox.ledger.release = release
    this.#note()
  }

  /** Returns on another chain, or on the same with a full window: only while killed. */
  async restore (era: Era): Promise<void> {
    const sandbox = await startSandboxOn(era, this.#windowBlocks, this.release)
    await this.#sandbox.close()
    this.#sandbox = sandbox
    this.#era = era
    this.#gate.setTarget(sandbox.url)
    this.grow()
    this.#note()
  }

  #become (condition: Condition): void {
    this.#condition = condition
    this.#note()
  }

  #note (): void {
    this.history.note({
      at: performance.now(),
      condition: this.#condition,
      era: this.#era.index,
      release: this.release,
      ...this.window
    })
  }
}
