import { type Fault, type Sandbox, startSandbox } from '#sandbox'
import { TcpGate } from '../tcp-gate.js'
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
  #lagFault: { remove: () => void } | undefined
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
    const gate = new TcpGate(sandbox.url)
    await gate.open()
    return new FaultyUpstream(name, current, forms, sandbox, gate)
  }

  get url (): string {
    return this.#gate.url
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
    this.#lag = Math.max(this.#lag, blocks)
    this.#lagFault?.remove()
    this.#lagFault = this.#sandbox.faults.add({ kind: 'lag', blocks: this.#lag })
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
    this.#gate.setTarget(sandbox.url)
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
