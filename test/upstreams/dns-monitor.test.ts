import { type LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { type Resolve } from '../../src/upstreams/dns.js'
import { UpstreamFailure } from '../../src/upstreams/upstream-failure.js'
import { respondOk } from '../support/stub-upstream.js'
import { testRequest, upstreamAt } from '../support/upstream.js'
import { until } from '../support/until.js'

const resolveEveryMs = 20
// Unused connections close after three seconds in any case.
const soonMs = 2000

const at = (...addresses: string[]): LookupAddress[] =>
  addresses.map(address => ({ address, family: address.includes(':') ? 6 : 4 }))

/** Listens at an address, counts connections and can defer its responses. */
async function listens (
  t: Test,
  address: string,
  port = 0
) {
  const sockets = new Set<Socket>()
  const pending: ServerResponse[] = []
  let [opened, isHolding] = [0, false]
  const server = createServer((_request, response) => {
    if (isHolding) pending.push(response)
    else respondOk(response, `"${address}"`)
  })
  server.on('connection', socket => {
    opened++
    sockets.add(socket.on('close', () => sockets.delete(socket)))
  })
  server.listen(port, address)
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  })
  return {
    port: (server.address() as AddressInfo).port,
    opened: () => opened,
    open: () => sockets.size,
    pending,
    setHolding: (value: boolean) => {
      isHolding = value
    }
  }
}

/** Creates an upstream whose name is resolved by the test. */
function named (t: Test, port: number, resolve: Resolve, maxConcurrent = 4) {
  let lost = 0
  const upstream = upstreamAt(t, `http://node.example:${port}`, {
    maxConcurrent,
    resolve,
    resolveEveryMs,
    onConnectionLost: () => {
      lost++
    }
  })
  const fetchBody = async (): Promise<string> =>
    await upstream.send(testRequest).then(
      ({ body }) => body.toString(),
      (error: unknown) => error instanceof UpstreamFailure ? error.description : String(error)
    )
  return { upstream, fetchBody, lost: () => lost }
}

t.test('after a DNS change new requests use the new address, and requests in flight complete', async t => {
  const old = await listens(t, '127.0.0.1')
  const next = await listens(t, '127.0.0.2', old.port)
  const dns = { addresses: at('127.0.0.1') }
  const { fetchBody, lost } = named(t, old.port, async () => dns.addresses)
  t.equal(await fetchBody(), '"127.0.0.1"')
  old.setHolding(true)
  const inFlight = fetchBody()
  await until(() => old.pending.length === 1, 'a request is in flight')
  old.setHolding(false)
  const other = await Promise.all([fetchBody(), fetchBody()])
  t.same(other, ['"127.0.0.1"', '"127.0.0.1"'])
  dns.addresses = at('127.0.0.2')
  await until(() => old.open() === 1, 'idle connections are closed', soonMs)
  t.ok(lost() > 0, 'another upstream may respond there')
  t.equal(await fetchBody(), '"127.0.0.2"')
  for (const response of old.pending) respondOk(response, '"late"')
  t.equal(await inFlight, '"late"')
  await until(() => old.open() === 0, 'the last connection is closed', soonMs)
  t.equal(await fetchBody(), '"127.0.0.2"')
  t.ok(next.opened() > 0)
})

t.test('a connection that is never idle follows a DNS change too', async t => {
  const old = await listens(t, '127.0.0.1')
  await listens(t, '127.0.0.2', old.port)
  const dns = { addresses: at('127.0.0.1') }
  let lookupCount = 0
  const { fetchBody } = named(t, old.port, async () => {
    lookupCount++
    return dns.addresses
  }, 1)
  await fetchBody()
  old.setHolding(true)
  const first = fetchBody()
  await until(() => old.pending.length === 1, 'a request is in flight')
  dns.addresses = at('127.0.0.2')
  const before = lookupCount
  await until(() => lookupCount >= before + 6, 'the name was looked up')
  for (const response of old.pending) respondOk(response, '"old"')
  // Sends the next request in the event-loop turn in which the response arrived.
  t.same([await first, await fetchBody()], ['"old"', '"127.0.0.2"'])
})

t.test('a DNS result that rotates, changes back or fails closes no connections', async t => {
  const server = await listens(t, '127.0.0.1')
  let lookupCount = 0
  const dns: { resolve: Resolve } = { resolve: async () => at('127.0.0.1') }
  const { fetchBody, lost } = named(t, server.port, async hostname => {
    lookupCount++
    return await dns.resolve(hostname)
  })
  await fetchBody()
  const untilLookups = async (count: number): Promise<void> => {
    const before = lookupCount
    await until(() => lookupCount >= before + count, 'the name was looked up')
  }
  dns.resolve = async () => at(`127.0.1.${lookupCount % 200}`, `127.0.2.${lookupCount % 200}`)
  await untilLookups(20)
  dns.resolve = async () => at(lookupCount % 2 === 0 ? '127.0.0.1' : '127.0.0.9')
  await untilLookups(20)
  dns.resolve = async () => {
    throw Object.assign(new Error('no'), { code: 'EAI_AGAIN' })
  }
  await untilLookups(20)
  dns.resolve = async () => {
    throw Object.assign(new Error('no'), { code: 'ENOTFOUND' })
  }
  await untilLookups(20)
  t.equal(await fetchBody(), '"127.0.0.1"')
  t.same([server.opened(), lost()], [1, 0])
  dns.resolve = async () => at(`127.0.1.${lookupCount % 200}`)
  await until(() => server.open() === 0, 'connections of a host name that is gone for long are closed', soonMs)
})

t.test('a dead address is skipped: it refuses connections, is silent or is of the other family', async t => {
  const server = await listens(t, '127.0.0.2')
  // TEST-NET-1 is routed nowhere or is unreachable at once (RFC 5737).
  for (const dead of ['127.0.0.3', '192.0.2.77', '::1']) {
    const { fetchBody } = named(t, server.port, async () => at(dead, '127.0.0.2'))
    t.same([await fetchBody(), await fetchBody()], ['"127.0.0.2"', '"127.0.0.2"'], dead)
  }
})
