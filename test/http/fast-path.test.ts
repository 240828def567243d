import t from 'tap'
import { type TestRequest, type TestResponse, tableItemLookup } from '../support/client.js'
import { until } from '../support/until.js'
import { varveAtSandbox } from '../support/varve.js'

t.test('a response is the same from the router and the fast path, in every form a client may want', async t => {
  const { varve } = await varveAtSandbox(t, {}, { log: { access: true } })
  // Leading zeros make another request variant of the same read, unknown to the fast path.
  const targets: [target: (zeros: string) => string, how: TestRequest][] = [
    [zeros => `/v1/accounts/0x1/modules?ledger_version=${zeros}2000&limit=1`, {}],
    [zeros => `/v1/blocks/by_version/${zeros}2000`, {}],
    [zeros => `/v1/blocks/by_version/${zeros}2000?with_transactions=true`, {}],
    [zeros => `/v1/tables/0x5eed/item?ledger_version=${zeros}2000`, tableItemLookup('u64', '"7"')]
  ]
  const wishes: Record<string, string>[] = [
    {},
    { accept: 'application/x-bcs' },
    { 'accept-encoding': 'gzip, deflate, br' },
    { 'if-none-match': '*' },
    { 'if-none-match': '"other"' },
    { origin: 'https://app.example' },
    { range: 'bytes=0-3' },
    { 'if-modified-since': 'Sat, 21 Nov 2026 00:00:00 GMT' },
    { 'cache-control': 'no-cache' }
  ]
  let requestCount = 0
  for (const [target, options] of targets) {
    for (const method of options.body === undefined ? ['GET', 'HEAD'] : ['POST']) {
      for (const [at, wish] of wishes.entries()) {
        const responseTo = async (zeros: string): Promise<TestResponse> => {
          requestCount++
          const began = Date.now()
          const got = await varve.get(target(zeros), { ...options, method, headers: { ...options.headers, ...wish } })
          const sentMs = Date.parse(String(got.headers.date))
          if (sentMs < began - 3000 || sentMs > Date.now()) t.fail(`the Date is ${got.headers.date}`)
          return { ...got, headers: { ...got.headers, date: '', 'x-request-id': '' } }
        }
        const isReady = ({ headers }: TestResponse): boolean =>
          String(headers['cache-status']).includes('hit') &&
          (wish['accept-encoding'] === undefined || headers['content-encoding'] !== undefined ||
            Number(headers['content-length']) < 256)
        await until(async () => isReady(await responseTo('0')), 'every form is there')
        const zeros = '0'.repeat(2 + at + (method === 'HEAD' ? wishes.length : 0))
        const routed = await responseTo(zeros)
        for (const how of ['at hand', 'once more']) {
          t.same(await responseTo(zeros), routed, `${how}: ${method} ${target(zeros)} ${JSON.stringify(wish)}`)
        }
      }
    }
  }
  const logged = varve.log.filter(({ msg }) => msg === 'request completed')
  t.equal(logged.length, requestCount)
  t.equal(new Set(logged.map(({ id }) => id)).size, requestCount, 'each has its own request id in the log')
})
