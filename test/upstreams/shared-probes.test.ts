import { type RequestListener } from 'node:http'
import t, { type Test } from 'tap'
import { probeRequest } from '../../src/upstreams/upstream-request.js'
import { SharedProbes } from '../../src/upstreams/shared-probes.js'
import { respondToIndex, startStubUpstream } from '../support/stub-upstream.js'
import { upstreamAt } from '../support/upstream.js'
import { until } from '../support/until.js'

interface Host {
  readonly requestCount: () => number
  /** Ends the present leases, as their time does. */
  readonly endLeases: () => void
  /** Probes in one of two processes; resolves with the status or the reason of the failure. */
  readonly probe: (nth: 0 | 1, timeoutMs?: number) => Promise<string>
}

/** Makes two processes of one host that probe one upstream. */
async function startHost (t: Test, index: RequestListener): Promise<Host> {
  let requestCount = 0
  const upstream = await startStubUpstream(
    t,
    (_request, response) => response.writeHead(404).end(),
    (request, response) => {
      requestCount++
      index(request, response)
    }
  )
  const leases = new Map<string, number>()
  const clients = [0, 1].map(() => upstreamAt(t, upstream.url, { maxConcurrent: 20 }))
  const processes: SharedProbes[] = [0, 1].map(own =>
    new SharedProbes({
      lease: async name => {
        if ((leases.get(name) ?? own) !== own) return false
        leases.set(name, own)
        return true
      },
      release: async name => leases.get(name) === own && leases.delete(name),
      publish: result => {
        processes[1 - own]?.onResult(result, () => {})
      }
    })
  )
  const probe = async (nth: number, timeoutMs = 5000): Promise<string> => {
    const [client, probes] = [clients[nth], processes[nth]]
    if (client === undefined || probes === undefined) throw new Error(`no process ${nth}`)
    return await probes.fetch(client, probeRequest('/v1'), timeoutMs).then(
      ({ status, stamped }) => `${status} ${stamped?.position.head.version}`,
      (error: Error) => error.message
    )
  }
  return {
    requestCount: () => requestCount,
    endLeases: () => {
      leases.clear()
    },
    probe
  }
}

t.test('beside a probe that hangs another process sends one, and a late failure is dropped', async t => {
  const withheld: Array<() => void> = []
  const { probe, requestCount, endLeases } = await startHost(t, (request, response) => {
    withheld.push(() => respondToIndex(request, response))
  })
  const hanging = probe(0, 300)
  const waiting = probe(1)
  await until(() => requestCount() === 1, 'the upstream has the first probe')
  endLeases()
  const later = probe(1)
  await until(() => requestCount() === 2, 'the upstream has a probe of the other process')
  t.match(await hanging, /timeout/)
  withheld[1]?.()
  t.match(await later, /^200/)
  t.match(await waiting, /^200/, 'the failure says nothing about it')
})

t.test('a failure reaches the processes that wait', async t => {
  const { probe } = await startHost(t, (_request, response) => response.destroy())
  const [first, second] = await Promise.all([probe(0), probe(1)])
  t.match(first, /n: truncated|n: unreachable/)
  t.equal(second, first)
})
