import { hash } from 'node:crypto'
import t from 'tap'
import { stateKeyHash } from '../../src/api/state-key.js'
import { stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const handle = Buffer.alloc(32, 7)
const digest = (of: string): Buffer => hash('sha3-256', of, 'buffer')
const hex = (bytes: Buffer): string => `0x${bytes.toString('hex')}`

/** Returns a length as BCS prints it. */
function lengthBytes (length: number): Buffer {
  const bytes = []
  for (; length >= 0x80; length >>>= 7) bytes.push((length & 0x7f) + 0x80)
  return Buffer.from([...bytes, length])
}

/** A transaction that changes many items of one table, in JSON and in BCS. */
function transactionOf (version: number, changeCount: number): { json: string, bcs: Buffer } {
  const keys = Array.from({ length: changeCount }, (_, index) => Buffer.from(`${version} ${index}`.padEnd(24)))
  const writeSet = Buffer.concat([
    Buffer.from([0]),
    lengthBytes(changeCount),
    ...keys.flatMap(key => [Buffer.from([1]), handle, lengthBytes(key.length), key, Buffer.from([1, 1, 0])])
  ])
  const committed = [digest(`transaction ${version}`), digest('events')]
  const changesHash = hash('sha3-256', Buffer.concat([digest('APTOS::WriteSet'), writeSet]), 'buffer')
  const root = digest(`root ${version}`)
  const versionBytes = Buffer.alloc(8)
  versionBytes.writeBigUInt64LE(BigInt(version))
  const [transactionHash = root, eventsHash = root] = committed
  return {
    json: JSON.stringify({
      version: String(version),
      hash: hex(transactionHash),
      event_root_hash: hex(eventsHash),
      state_change_hash: hex(changesHash),
      success: true,
      accumulator_root_hash: hex(root),
      changes: keys.map(key => ({
        state_key_hash: `0x${stateKeyHash(Buffer.concat([Buffer.from([1]), handle, key]))}`,
        handle: hex(handle),
        key: hex(key),
        value: '0x00',
        data: null,
        type: 'write_table_item'
      })),
      type: 'user_transaction'
    }),
    bcs: Buffer.concat([versionBytes, ...committed, changesHash, root, writeSet])
  }
}

t.test('hits are served between the changes of a large transaction, read and checked', async t => {
  const transactions = [transactionOf(1000, 2), transactionOf(1001, 24_000)]
  let head = 1000
  const served: string[] = []
  const stub = await startStubUpstream(t, ({ url = '', headers: { accept = '' } }, response) => {
    const stamp = { ...stamps(), 'x-aptos-ledger-version': `${head}`, 'x-aptos-ledger-timestampusec': `${head}000` }
    if (!url.startsWith('/v1/transactions?')) {
      response.writeHead(200, { 'content-type': 'application/json', ...stamp }).end('[]')
      return
    }
    const start = Number(new URL(url, 'http://h').searchParams.get('start') ?? head)
    const page = transactions.slice(start - 1000, head - 1000 + 1)
    const isBcs = accept === 'application/x-bcs'
    if (page.length > 1) served.push(isBcs ? 'bcs' : 'json')
    const body = isBcs
      ? Buffer.concat([Buffer.from([page.length]), ...page.map(({ bcs }) => bcs)])
      : `[${page.map(({ json }) => json).join(',')}]`
    response.writeHead(200, { 'content-type': isBcs ? accept : 'application/json', ...stamp }).end(body)
  })
  const varve = await varveAt(t, stub.url, { follow: { mode: 'on', verify: 1 } })
  const cached = '/v1/accounts/0x1/modules?ledger_version=500'
  const headOfHit = async (): Promise<unknown> => (await varve.get(cached)).headers['x-node-ledger-version']
  await varve.get('/v1/accounts/0x1')
  await until(async () => await varve.metric('varve_follow_head_version') === 1000, 'it follows')
  await headOfHit()
  head = 1001
  const hits = { json: 0, bcs: 0 }
  while (await headOfHit() !== '1001') {
    const last = served.at(-1)
    if (last === 'json' || last === 'bcs') hits[last]++
  }
  t.equal(await varve.metric('varve_follow_head_version'), 1001)
  t.ok(hits.json > 20 && hits.bcs > 5, JSON.stringify(hits))
  t.equal(await varve.metric('varve_follow_verified_total{result="equal"}'), 1)
})
