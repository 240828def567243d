import { type LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Resolve } from '../../src/upstreams/dns-cache.js'
import { UpstreamFailure } from '../../src/upstreams/upstream-failure.js'
import { UpstreamClient } from '../../src/upstreams/upstream-client.js'
import { type UpstreamRequest } from '../../src/upstreams/upstream-request.js'
import { respondOk } from '../support/stub-upstream.js'
import { until } from '../support/until.js'

const question: UpstreamRequest = {
  endpoint: 'account_modules',
  method: 'GET',
  target: '/v1/x',
  headers: {},
  isIdempotent: true
}
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
): Promise<
  {
    port: number,
    asked: () => number,
    opened: () => number,
    open: () => number,
    held: ServerResponse[],
    hold: (isHeld: boolean) => void
  }
> {
  const sockets = new Set<Socket>()
  const held: ServerResponse[] = []
  let [asked, opened, isHeld] = [0, 0, false]
  const server = createServer((_request, response) => {
    asked++
    if (isHeld) held.push(response)
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
    await new Promise(resolve => {
      server.close(resolve)
    })
  })
  return {
    port: (server.address() as AddressInfo).port,
    asked: () => asked,
    opened: () => opened,
    open: () => sockets.size,
    held,
    hold: value => {
      isHeld = value
    }
  }
}

/** Creates an upstream whose name is resolved by the test. */
function named (t: Test, port: number, resolve: Resolve, timeoutMs = 2000, maxConcurrent = 4) {
  let lost = 0
  const node = new UpstreamClient({
    name: 'n',
    url: `http://node.example:${port}`,
    headers: {},
    timeoutMs,
    maxConcurrent,
    caFile: null,
    maxBufferedBytes: 1000,
    now: () => performance.now(),
    resolve,
    resolveEveryMs,
    onConnectionLost: () => {
      lost++
    }
  }, { fetched: () => {} })
  t.teardown(async () => {
    await node.close()
  })
  const says = async (): Promise<string> =>
    await node.fetch(question).then(
      ({ body }) => body.toString(),
      (error: unknown) => error instanceof UpstreamFailure ? error.description : String(error)
    )
  return { node, says, lost: () => lost }
}

t.test('after a DNS change new requests use the new address, and requests in flight complete', async t => {
  const old = await listens(t, '127.0.0.1')
  const next = await listens(t, '127.0.0.2', old.port)
  const names = { addresses: at('127.0.0.1') }
  const { says, lost } = named(t, old.port, async () => names.addresses)
  t.equal(await says(), '"127.0.0.1"')
  old.hold(true)
  const inFlight = says()
  await until(() => old.held.length === 1, 'one is under way')
  old.hold(false)
  const other = await Promise.all([says(), says()])
  t.same(other, ['"127.0.0.1"', '"127.0.0.1"'])
  names.addresses = at('127.0.0.2')
  await until(() => old.open() === 1, 'those that are idle are ended', soonMs)
  t.ok(lost() > 0, 'another node may respond there')
  t.equal(await says(), '"127.0.0.2"')
  for (const response of old.held) respondOk(response, '"late"')
  t.equal(await inFlight, '"late"')
  await until(() => old.open() === 0, 'and the last one when it was answered', soonMs)
  t.equal(await says(), '"127.0.0.2"')
  t.ok(next.opened() > 0)
})

t.test('a connection that is never idle follows a DNS change too', async t => {
  const old = await listens(t, '127.0.0.1')
  await listens(t, '127.0.0.2', old.port)
  const names = { addresses: at('127.0.0.1') }
  let looks = 0
  const { says } = named(
    t,
    old.port,
    async () => {
      looks++
      return names.addresses
    },
    2000,
    1
  )
  await says()
  old.hold(true)
  const first = says()
  await until(() => old.held.length === 1, 'it is busy')
  names.addresses = at('127.0.0.2')
  const before = looks
  await until(() => looks >= before + 6, 'it was looked at')
  for (const response of old.held) respondOk(response, '"old"')
  // Sends the next request in the event-loop turn in which the response arrived.
  t.same([await first, await says()], ['"old"', '"127.0.0.2"'])
})

t.test('a DNS result that rotates, changes back or fails closes no connections', async t => {
  const server = await listens(t, '127.0.0.1')
  let looks = 0
  const names: { resolve: Resolve } = { resolve: async () => at('127.0.0.1') }
  const { says, lost } = named(t, server.port, async hostname => {
    looks++
    return await names.resolve(hostname)
  })
  await says()
  const see = async (count: number): Promise<void> => {
    const before = looks
    await until(() => looks >= before + count, 'it was looked at')
  }
  names.resolve = async () => at(`127.0.1.${looks % 200}`, `127.0.2.${looks % 200}`)
  await see(20)
  names.resolve = async () => at(looks % 2 === 0 ? '127.0.0.1' : '127.0.0.9')
  await see(20)
  names.resolve = async () => {
    throw Object.assign(new Error('no'), { code: 'EAI_AGAIN' })
  }
  await see(20)
  names.resolve = async () => {
    throw Object.assign(new Error('no'), { code: 'ENOTFOUND' })
  }
  await see(20)
  t.equal(await says(), '"127.0.0.1"')
  t.same([server.opened(), lost()], [1, 0])
  names.resolve = async () => at(`127.0.1.${looks % 200}`)
  await until(() => server.open() === 0, 'what is not named for very long is ended all the same', soonMs)
})

t.test('a DNS failure or timeout is reported with its reason, and ends when the name resolves', async t => {
  const server = await listens(t, '127.0.0.1')
  const names: { resolve: Resolve } = {
    resolve: async () => {
      throw Object.assign(new Error('no'), { code: 'ENOTFOUND' })
    }
  }
  const { node, says } = named(t, server.port, async hostname => await names.resolve(hostname), 2000)
  t.equal(await says(), 'DNS lookup of node.example failed: ENOTFOUND')
  let answer: (addresses: LookupAddress[]) => void = () => {}
  names.resolve = async () =>
    await new Promise(resolve => {
      answer = resolve
    })
  const began = performance.now()
  t.equal(await says(), 'DNS lookup of node.example failed: ETIMEOUT')
  t.ok(performance.now() - began < 5000, 'the limit is 2 s, however long the resolver takes')
  t.notOk(node.lastFetchSucceeded)
  answer(at('127.0.0.1'))
  t.equal(await says(), '"127.0.0.1"')
  t.ok(node.lastFetchSucceeded)
  t.equal(
    new UpstreamFailure('n', 'unresolved', undefined).description,
    'DNS lookup failed',
    'as reported by another process'
  )
})

t.test('a dead address is skipped: one that refuses, is silent or is of the other family', async t => {
  const server = await listens(t, '127.0.0.2')
  // TEST-NET-1 is routed nowhere or is unreachable at once (RFC 5737).
  for (const dead of ['127.0.0.3', '192.0.2.77', '::1']) {
    const { says } = named(t, server.port, async () => at(dead, '127.0.0.2'))
    t.same([await says(), await says()], ['"127.0.0.2"', '"127.0.0.2"'], dead)
  }
})

t.test('an IP address in place of a name is never looked up', async t => {
  const server = await listens(t, '127.0.0.1')
  let looks = 0
  const node = new UpstreamClient({
    name: 'n',
    url: `http://127.0.0.1:${server.port}`,
    headers: {},
    timeoutMs: 1000,
    maxConcurrent: 1,
    caFile: null,
    maxBufferedBytes: 1000,
    now: () => performance.now(),
    resolveEveryMs: 5,
    resolve: async () => {
      looks++
      return []
    }
  }, { fetched: () => {} })
  t.teardown(async () => {
    await node.close()
  })
  t.equal((await node.fetch(question)).body.toString(), '"127.0.0.1"')
  await pause(30)
  t.equal(looks, 0)
})
