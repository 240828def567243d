import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Test } from 'tap'
import { type Sandbox, type SandboxOptions } from '#sandbox'
import { startSandboxNode } from '../replicas.js'
import { type TestVarve, varveAt } from '../varve.js'

/** What an operator is told of, and how it is brought about on real sockets. */
export interface AlertCase {
  readonly alert: string
  /** Labels beside the instance's and the severity. */
  readonly labels?: Readonly<Record<string, string>>
  /** Of which admin listener. */
  readonly adminUrl: string
  /** What the value of the alert must be. */
  readonly isValue: (value: number) => boolean
  /** What its description says in words. */
  readonly description: RegExp
  /** Where it is not there from the start. */
  readonly begin?: () => void | Promise<void>
  /** Where it can be mended. */
  readonly fix?: () => void | Promise<void>
}

// As often as real chains have a block.
const blockMs = 250

/**
 * Nodes whose chains grow at one pace, varves that ask where they stand each second, and clients that ask again and
 * again.
 */
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

  /** A node whose chain grows. */
  async startUpstream (options: SandboxOptions = {}): Promise<Sandbox> {
    const node = await this.startPausedUpstream(options)
    this.#growing.add(node)
    return node
  }

  /** One whose chain stands still. */
  async startPausedUpstream (options: SandboxOptions = {}): Promise<Sandbox> {
    return await startSandboxNode(this.#t, { prunedBlocks: 0, ...options })
  }

  /** A chain that stood still grows from now on. */
  growChain (node: Sandbox): void {
    this.#growing.add(node)
  }

  /** A file that is gone with the test. */
  file (name: string, text: string): string {
    const file = join(this.#folder, name)
    writeFileSync(file, text)
    return file
  }

  async startVarve (
    nodes: readonly Sandbox[],
    change: Parameters<typeof varveAt>[2] = {},
    upstream: object = {}
  ): Promise<TestVarve> {
    const defaults = {
      headers: {},
      timeoutMs: 5000,
      maxConcurrent: 256,
      requestsPerSecond: null,
      caFile: null,
      ignoreCacheControl: false
    }
    const upstreams = nodes.map(({ url }, at) => ({ ...defaults, name: `n${at + 1}`, url, ...upstream }))
    return await varveAt(this.#t, '', { head: { pollMs: 1000 }, hedge: { share: 0 }, upstreams, ...change })
  }

  /**
   * Does something again and again, each time whatever became of it the last time; ends with the test, or when it is
   * told to.
   */
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

/** A read of history that no other has asked for. */
export function newHistoryTarget (version: number | bigint): string {
  return `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
}
