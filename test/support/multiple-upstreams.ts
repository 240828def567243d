import { type Test } from 'tap'
import { type Sandbox, type SandboxOptions } from '#sandbox'
import { type TestResponse, sendRequest } from './client.js'
import { startSandboxNode } from './replicas.js'
import { until } from './until.js'
import { type TestVarve, varveAt } from './varve.js'

/** varve in front of several embedded nodes named n1, n2 and so on, which grow only when a test says so. */
export interface VarveWithUpstreams {
  readonly upstreams: readonly Sandbox[]
  readonly varve: TestVarve
  get(target: string): Promise<TestResponse>
  /** Returns the number of data requests of each upstream since the last call, without polls and proofs of chains. */
  takeRequestCounts(): number[]
  /** Returns the health of the upstreams, as an operator sees it. */
  upStates(): Promise<string>
  /** Returns an upstream's status on /status.json. */
  statusOf(name: string): Promise<Record<string, unknown>>
}

/** Starts nodes with a long history and no growth, and varve in front of them; waits until all have responded. */
export async function startWithUpstreams (
  t: Test,
  each: SandboxOptions[],
  change: Parameters<typeof varveAt>[2] = {},
  upstream: object = {}
): Promise<VarveWithUpstreams> {
  const upstreams = await Promise.all(
    each.map(async options => await startSandboxNode(t, { prunedBlocks: 0, ...options }))
  )
  return await untilAllPolled(await startInFrontOf(t, upstreams, change, upstream))
}

/** Starts two equal upstreams, of which the first ranks first because the other is slower. */
export async function startWithTwoUpstreams (
  t: Test,
  upstream: object = {},
  change: Parameters<typeof varveAt>[2] = {}
): Promise<VarveWithUpstreams> {
  const upstreams = [await startSandboxNode(t, { prunedBlocks: 0 }), await startSandboxNode(t, { prunedBlocks: 0 })]
  // Delays the second's first response by more than a busy machine does, so that the first ranks first.
  const first = upstreams[1]?.faults.add({ kind: 'slow', ms: 100 })
  const served = await untilAllPolled(await startInFrontOf(t, upstreams, change, upstream))
  upstreams[1]?.faults.add({ kind: 'slow', ms: 15 })
  first?.remove()
  return served
}

async function untilAllPolled (served: VarveWithUpstreams): Promise<VarveWithUpstreams> {
  await until(
    async () => !(await sendRequest(served.varve.adminUrl, '/readyz')).body.includes('has not responded yet'),
    'every upstream was polled'
  )
  served.takeRequestCounts()
  return served
}

/** The same with running nodes, from before their first response. */
export async function startInFrontOf (
  t: Test,
  sandboxes: readonly Sandbox[],
  change: Parameters<typeof varveAt>[2] = {},
  upstream: object = {}
): Promise<VarveWithUpstreams> {
  const upstreams = sandboxes.map(({ url }, at) => ({ name: `n${at + 1}`, url, timeoutMs: 4000, ...upstream })) as never
  const varve = await varveAt(t, '', { upstreams, head: { pollMs: 100 }, ...change })
  return {
    upstreams: sandboxes,
    varve,
    get: async target => await varve.get(target),
    takeRequestCounts: () =>
      sandboxes.map(({ requests }) => {
        const { index = 0, block_by_height: anchors = 0, transaction_by_version: roots = 0 } = requests.counts
        const count = requests.total - index - anchors - roots
        requests.reset()
        return count
      }),
    upStates: async () =>
      (await Promise.all(
        sandboxes.map(async (_upstream, at) => await varve.metric(`varve_upstream_up{upstream="n${at + 1}"}`))
      )).join(),
    statusOf: async name => {
      const { upstreams: all } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as {
        upstreams: Array<Record<string, unknown>>
      }
      return all.find(one => one['name'] === name) ?? {}
    }
  }
}

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`

/** Reads consecutive versions with limited concurrency; returns their latencies, the longest last. */
export async function readLatencies (
  { get }: VarveWithUpstreams,
  from: number,
  count: number,
  atATime = 4
): Promise<number[]> {
  const times: number[] = []
  let next = from
  await Promise.all(Array.from({ length: atATime }, async () => {
    while (next < from + count) {
      const began = performance.now()
      const { status } = await get(modules(next++))
      if (status !== 200) throw new Error(`answered ${status}`)
      times.push(performance.now() - began)
    }
  }))
  return times.sort((a, b) => a - b)
}
