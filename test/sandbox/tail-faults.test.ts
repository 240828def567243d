import { readFileSync } from 'node:fs'
import t from 'tap'
import { type WriteSetChange } from '../../sandbox/records.js'
import { type TailLie } from '../../sandbox/transaction-page-fault.js'
import { transactionRecord } from '../../sandbox/transactions.js'
import { startSandboxNode } from '../support/replicas.js'
import { requestNode } from './request-node.js'

const bcs = { accept: 'application/x-bcs' }

t.test('each fault of the tail makes a page wrong at one version, and leaves the rest as it is', async t => {
  const sandbox = await startSandboxNode(t)
  const { url, ledger } = sandbox
  const start = ledger.block(700).firstVersion
  const at = start + 5n
  const page = async () => await requestNode(`${url}/v1/transactions?start=${start}&limit=10`)
  const truth = (await page()).json
  const versions = (records: any[]): number[] => records.map(({ version }) => Number(version) - Number(start))
  const withFault = async (lie: string): Promise<any> => {
    sandbox.faults.add({ kind: 'tail', lie, version: String(at) } as never)
    const got = await page()
    sandbox.faults.clear()
    return got.json
  }
  t.same(versions(await withFault('skipped')), [0, 1, 2, 3, 4, 6, 7, 8, 9])
  t.same(versions(await withFault('repeated')), [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9])
  t.same(versions(await withFault('reordered')), [0, 1, 2, 3, 4, 6, 5, 7, 8, 9])
  t.same(versions(await withFault('shortened')), [0, 1, 2, 3, 4])
  t.match(await withFault('failing'), { error_code: 'internal_error' })
  const wrongAt = async (lie: string, expected: unknown): Promise<void> => {
    const got = await withFault(lie)
    t.same(
      got.filter((_: unknown, index: number) => index !== 5),
      truth.filter((_: unknown, index: number) => index !== 5)
    )
    t.same(got[5], { ...truth[5], changes: expected })
  }
  const { changes } = truth[5]
  t.ok(changes.length > 0)
  const [{ state_key_hash: dropped }] = changes
  await wrongAt('droppedChange', changes.filter(({ state_key_hash: hash }: WriteSetChange) => hash !== dropped))
  await wrongAt('unknownChange', [{ ...changes[0], type: 'write_unknown' }, ...changes.slice(1)])
  t.same(await withFault('noWriteSets'), truth.map((record: any) => ({ ...record, changes: [] })))
  const fork = await withFault('otherChain')
  t.same(fork.slice(0, 5), truth.slice(0, 5))
  t.same(versions(fork), versions(truth))
  for (const [index, { hash, accumulator_root_hash: root }] of fork.slice(5).entries()) {
    t.not(hash, truth[index + 5].hash)
    t.not(root, truth[index + 5].accumulator_root_hash)
  }
  t.same((await page()).json, truth)
})

t.test('a page in BCS is as wrong as the one in JSON, so its write set no longer has its hash', async t => {
  const sandbox = await startSandboxNode(t)
  const start = sandbox.ledger.block(700).firstVersion
  const page = async () =>
    (await requestNode(`${sandbox.url}/v1/transactions?start=${start}&limit=3`, { headers: bcs })).body
  const truth = await page()
  const withFault = async (lie: TailLie): Promise<Buffer> => {
    sandbox.faults.add({ kind: 'tail', lie, version: start })
    const got = await page()
    sandbox.faults.clear()
    return got
  }
  const dropped = await withFault('droppedChange')
  t.ok(dropped.length < truth.length)
  const { state_change_hash: named, changes } =
    (await requestNode(`${sandbox.url}/v1/transactions/by_version/${start}`)).json
  t.ok(dropped.includes(Buffer.from(named.slice(2), 'hex')))
  // The operation of the first write, a modification, is of a kind that no layout has.
  const unknown = await withFault('unknownChange')
  const differing = [...truth].flatMap((byte, index) => byte === unknown[index] ? [] : [[byte, Number(unknown[index])]])
  t.ok(changes.length > 0)
  t.same([unknown.length, differing], [truth.length, [[4, 6]]])
})

t.test('a dropped change is the whole group where it is a member of one', async t => {
  const sandbox = await startSandboxNode(t, { prunedBlocks: 0 })
  const { url, ledger } = sandbox
  const changesAt = async (version: bigint): Promise<WriteSetChange[]> =>
    (await requestNode(`${url}/v1/transactions?start=${version}&limit=1`)).json[0].changes
  const startsWithGroup = ([first, second]: readonly WriteSetChange[]): boolean =>
    first !== undefined && first.state_key_hash === second?.state_key_hash
  const version = Array.from({ length: 1_000 }, (_, at) => BigInt(at + 1)).find(at =>
    startsWithGroup(transactionRecord(ledger, ledger.blockOf(at), at).changes)
  )
  if (version === undefined) throw new RangeError('no transaction begins with a group')
  const [first, ...rest] = await changesAt(version)
  sandbox.faults.add({ kind: 'tail', lie: 'droppedChange', version })
  const left = await changesAt(version)
  t.same(left, rest.filter(({ state_key_hash: hash }) => hash !== first?.state_key_hash))
  t.ok(left.length < rest.length)
})

t.test('without a version the middle of each page is wrong; the control endpoint takes it too', async t => {
  const { url } = await startSandboxNode(t)
  const body = JSON.stringify({ kind: 'tail', lie: 'skipped', match: 'transactions' })
  t.equal((await requestNode(`${url}/sandbox/faults`, { method: 'POST', body })).status, 200)
  const { json } = await requestNode(`${url}/v1/transactions?limit=9`)
  t.equal(json.length, 8)
  t.equal(Number(json[4].version), Number(json[3].version) + 2)
})

t.test('a reset begins another chain without faults', async t => {
  const sandbox = await startSandboxNode(t, { blocks: 50, prunedBlocks: 0 })
  const rootAt = async () =>
    (await requestNode(`${sandbox.url}/v1/transactions/by_version/9`)).json.accumulator_root_hash
  const first = await rootAt()
  sandbox.faults.add({ kind: 'rateLimited' })
  sandbox.reset({ blocks: 60 })
  t.equal(sandbox.ledger.height, 59)
  const second = await rootAt()
  t.not(second, first)
  t.equal((await requestNode(`${sandbox.url}/sandbox/reset?seed=1`, { method: 'POST' })).status, 200)
  t.equal(await rootAt(), first)
  t.match((await requestNode(`${sandbox.url}/sandbox/reset?seed=x`, { method: 'POST' })).status, 400)
})

t.test('other programs import the sandbox that varve itself runs', async t => {
  const { exports, imports } = JSON.parse(readFileSync('package.json', 'utf8'))
  t.equal(exports['./sandbox'].default, imports['#sandbox'])
  t.equal(exports['./sandbox'].types, imports['#sandbox'].replace(/\.js$/, '.d.ts'))
})

t.test('blocks have as many transactions as asked for', async t => {
  const { ledger } = await startSandboxNode(t, { blocks: 100, prunedBlocks: 0, blockTransactions: 50 })
  const mean = Number(ledger.head.version) / 99
  t.ok(mean > 45 && mean < 60, `${mean}`)
})
