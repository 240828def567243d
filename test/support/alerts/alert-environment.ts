import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Test } from 'tap'
import { type Sandbox, type SandboxOptions } from '#sandbox'
import { startSandboxNode } from '../replicas.js'
import { type TestVarve, varveAt } from '../varve.js'

/** An alert and the way to cause it on real sockets. */
export interface AlertCase {
  readonly alert: string
  /** Labels besides the instance and the severity. */
  readonly labels?: Readonly<Record<string, string>>
  /** Admin listener of the varve that alerts. */
  readonly adminUrl: string
  /** Checks the value of the alert. */
  readonly isValue: (value: number) => boolean
  /** Expected text of the description. */
  readonly description: RegExp
  /** Starts the cause, unless it exists from the start. */
  readonly begin?: () => void | Promise<void>
  /** Ends the cause, if that is possible. */
  readonly fix?: () => void | Promise<void>
}

// Block interval of real chains.
const blockMs = 250

/** Upstreams whose chains grow at one pace, varves that poll them each second, and clients that repeat reads. */
export class AlertEnvironment {
  readonly #t: Test
  readonly #growing = new Set<Sandbox>()
  readonly #folder = mkdtempSync(join(tmpdir(), 'varve-alerts-'))

  constructor (t: Test) {
    this.#t = t
    t.teardown(() => {
      rmSync(this.#folder, { recursive: true, force: true })
    })
    this.repeat(blockMs, async () => {
      for (const { ledger } of this.#growing) ledger.grow()
    })
  }

  /** Starts a node whose chain grows. */
  async startUpstream (options: SandboxOptions = {}): Promise<Sandbox> {
    const upstream = await this.startPausedUpstream(options)
    this.#growing.add(upstream)
    return upstream
  }

  /** Starts a node whose chain does not grow. */
  async startPausedUpstream (options: SandboxOptions = {}): Promise<Sandbox> {
    return await startSandboxNode(this.#t, { prunedBlocks: 0, ...options })
  }

  /** Resumes the growth of a paused chain. */
  growChain (upstream: Sandbox): void {
    this.#growing.add(upstream)
  }

  /** Writes a file that is removed with the test. */
  file (name: string, text: string): string {
    const file = join(this.#folder, name)
    writeFileSync(file, text)
    return file
  }

  async startVarve (
    sandboxes: ReadonlyArray<{ readonly url: string }>,
    change: Parameters<typeof varveAt>[2] = {},
    upstream: object = {}
  ): Promise<TestVarve> {
    const defaults = {
      headers: {},
      timeoutMs: 5000,
      maxConcurrent: 256,
      requestsPerSecond: null,
      caFile: null,
      resolve: 'any',
      proxy: null,
      certFile: null,
      keyFile: null,
      ignoreCacheControl: false,
      maxLagSeconds: 60,
      priority: 0,
      weight: 1
    }
    const upstreams = sandboxes.map(({ url }, at) => ({ ...defaults, name: `n${at + 1}`, url, ...upstream }))
    return await varveAt(this.#t, '', { head: { pollMs: 1000 }, hedge: { share: 0 }, upstreams, ...change })
  }

  /** Repeats work whatever its result, until the test ends or the returned function is called. */
  repeat (everyMs: number, work: (nth: number) => Promise<unknown>): () => void {
    let nth = 0
    const timer = setInterval(() => {
      work(nth++).catch(() => {})
    }, everyMs)
    const end = (): void => {
      clearInterval(timer)
    }
    this.#t.teardown(end)
    return end
  }
}

/** Returns a read of history that no other caller gets. */
export function newHistoryTarget (version: number | bigint): string {
  return `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
}
