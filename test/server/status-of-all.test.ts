import t from 'tap'
import { readinessOfAll, type Status, statusOfAll } from '../../src/server/status-of-all.js'

const worker = (pid: number, version: number | undefined, degraded: string[] = []): Status => ({
  pid,
  ready: version !== undefined,
  degraded,
  chain: { id: 4, generation: 1 },
  position: version === undefined
    ? undefined
    : { version: String(version), oldestVersion: '0', blockHeight: '1', oldestBlockHeight: '0', timestampUsec: '5', ageMs: 1 },
  upstreams: [{ name: 'n', state: 'up', reason: undefined, release: 'r', version: String(version), oldestVersion: '0', lagVersions: '0', latencyMs: 1, p95Ms: undefined, underWay: pid, waiting: 2 }]
})

t.test('varve can answer where one worker can; each complaint is told once, and that there are fewer than there should be', async t => {
  t.same(readinessOfAll([worker(1, 9), worker(2, 8)], 2, false), { ready: true, degraded: [] })
  t.same(readinessOfAll([worker(1, 9, ['n is slow']), worker(2, undefined, ['n is slow'])], 3, false), { ready: true, degraded: ['1 of 3 workers are ready', 'n is slow'] })
  t.match(readinessOfAll([worker(1, undefined)], 1, false), { ready: false })
  t.same(readinessOfAll([], 2, false), { ready: false, degraded: ['0 of 2 workers are ready'] })
  t.same(readinessOfAll([worker(1, 9)], 1, true), { ready: false, degraded: ['stopping'] })
})

t.test('what is told of the chain is the word of the worker that has got furthest, however many digits that takes', async t => {
  const told = statusOfAll([worker(1, 9), worker(2, 10), worker(3, undefined)], 3, false)
  t.match(told, { ready: true, position: { version: '10' }, upstreams: [{ name: 'n', underWay: 6, waiting: 6 }], workers: [{ pid: 1, version: '9' }, { pid: 2 }, { pid: 3, ready: false }] })
  t.equal('pid' in JSON.parse(JSON.stringify(told)), false)
  t.match(statusOfAll([], 2, false), { ready: false, upstreams: [], workers: [] })
})
