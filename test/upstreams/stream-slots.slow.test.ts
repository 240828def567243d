import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { openDeaf } from '../support/raw.js'
import { respondOk, respondToIndex, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const mega = 1024 * 1024
const maxConcurrent = 32
const large = (nth: number): string => `/v1/accounts/0x1/modules?ledger_version=${500 + nth}`
const small = '/v1/accounts/0x5/modules?ledger_version=500'

/** Opens connections of one client, each with a read whose response it does not read. */
async function slowStreams (t: Test, url: string, count: number, localAddress: string): Promise<void> {
  for (let nth = 0; nth < count; nth++) {
    await openDeaf(t, url, `GET ${large(nth)} HTTP/1.1\r\nHost: x\r\n\r\n`, localAddress)
  }
}

t.test('32 slow streams of one client cost others no miss, freeze no head, and are reported', {
  timeout: 60_000
}, async t => {
  let polls = 0
  const body = Buffer.alloc(16 * mega, 'x')
  const stub = await startStubUpstream(t, (request, response) => {
    if (/0x0*5\//.test(request.url ?? '')) respondOk(response, '[]')
    else respondOk(response, body as unknown as string)
  }, (request, response) => {
    polls++
    respondToIndex(request, response)
  })
  const varve = await varveAt(t, stub.url, {
    upstream: { maxConcurrent },
    head: { pollMs: 100 },
    cache: { maxEntryMb: 1 }
  })
  const held = async (): Promise<number> =>
    await varve.metric('varve_upstream_slots_held_by_streams{upstream="node"}') ?? 0
  await slowStreams(t, varve.url, maxConcurrent, '127.0.0.2')
  await until(async () => await held() === maxConcurrent - 1, 'streams hold every slot but one')
  const before = polls
  await until(() => polls > before + 2, 'the head is polled all the same')
  const { status } = await sendRequest(varve.url, small, { localAddress: '127.0.0.3' })
  t.equal(status, 200, 'another client\'s miss is served')
  const brokenOff = async (): Promise<number> =>
    await varve.metric('varve_upstream_streams_broken_off_total{upstream="node"}') ?? 0
  t.ok(await brokenOff() > 0)
  await slowStreams(t, varve.url, maxConcurrent / 2, '127.0.0.4')
  await until(
    async () => await brokenOff() >= maxConcurrent / 2 - 1,
    'a client keeps half of the slots while others wait'
  )
  t.match(JSON.parse((await sendRequest(varve.adminUrl, '/readyz')).body), {
    ready: true,
    level: 'amber',
    degraded: [/^node has no free slot: \d+ requests wait, \d+ of 32 slots are held by streams$/]
  })
})
