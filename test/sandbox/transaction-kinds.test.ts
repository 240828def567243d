import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { type SandboxOptions } from '#sandbox'
import { pendingTransactions } from '../../sandbox/transactions.js'
import { requestNode, requestTableItem } from './request-node.js'
import { startSandboxNode } from '../support/replicas.js'

interface Kind {
  readonly version: number
  readonly members?: Record<string, readonly string[]>
}

const table = parse(readFileSync('test/cases/transaction-kinds.yaml', 'utf8')) as Readonly<Record<string, Kind>>

const versionOf = (kind: string): number => table[kind]?.version ?? 0

async function start (t: Test, options: SandboxOptions = {}) {
  const sandbox = await startSandboxNode(t, options)
  const blockAt = async (path: string): Promise<any> =>
    (await requestNode(`${sandbox.url}/v1/blocks/${path}?with_transactions=true`)).json
  const at = async (version: number | bigint): Promise<any> => {
    const { transactions } = await blockAt(`by_version/${version}`)
    return transactions.find((each: any) => each.version === String(version))
  }
  return { ...sandbox, blockAt, at }
}

t.test('members have the names and the order of full nodes', async t => {
  const { at } = await start(t)
  for (const [kind, { version, members = {} }] of Object.entries(table)) {
    const record = Object.keys(members).length > 0 && await at(version)
    for (const [path, names] of Object.entries(members)) {
      const part = path.split('.').filter(Boolean).reduce((within, name) => within[name], record)
      // Every transaction ends with its type.
      t.same(Object.keys(part), path === '' ? [...names, 'type'] : names, `${path} of ${kind}`)
    }
  }
})

t.test('a payload is encrypted while its transaction is pending, with the members of full nodes', async t => {
  const { url, ledger } = await start(t)
  const encrypted = (): { hash: string } | undefined =>
    pendingTransactions(ledger, ledger.height).find(({ payload }) => payload.type === 'encrypted_transaction_payload')
  while (encrypted() === undefined) ledger.grow()
  const target = `${url}/v1/transactions/by_hash/${String(encrypted()?.hash)}`
  const pending = (await requestNode(target)).json as any
  t.match(pending, { type: 'pending_transaction', payload: { encrypted_state: 'encrypted' } })
  const names = ['payload_hash', 'ciphertext', 'encryption_epoch', 'claimed_entry_fun', 'encrypted_state', 'type']
  t.same(Object.keys(pending.payload), names)
  ledger.grow()
  const committed = (await requestNode(target)).json
  const { payload_hash: hash, ciphertext } = pending.payload
  t.match(committed, { type: 'user_transaction', payload: { payload_hash: hash, ciphertext } })
  t.match(committed, { payload: { encrypted_state: /^(?:decrypted|failed_decryption)$/ } })
})

t.test('a failed transaction has its status and gas; a nonce can replace the sequence number', async t => {
  const { at, blockAt } = await start(t)
  const statuses = new Set<string>()
  for (let height = 100; height < 320; height++) {
    for (
      const record of (await blockAt(`by_height/${height}`)).transactions.filter(({ success }: any) =>
        success === false
      )
    ) {
      statuses.add(record.vm_status)
      t.match(record, {
        gas_used: '11',
        changes: [{ type: 'write_table_item' }],
        events: [{ type: '0x1::transaction_fee::FeeStatement' }]
      })
    }
  }
  t.ok(statuses.size >= 4)
  t.match(await at(versionOf('nonce')), {
    sequence_number: '18446744073709551615',
    replay_protection_nonce: /^[0-9]+$/
  })
  t.match(await at(versionOf('event of a module')), {
    events: [{ guid: { creation_number: '0', account_address: '0x0' }, sequence_number: '0' }]
  })
})

t.test('a deleted item or resource exists from its write to its deletion', async t => {
  const { url, at } = await start(t)
  const deleted = await at(versionOf('change delete_table_item decoded'))
  const [{ handle, data }] = deleted.changes
  const status = async (version: number): Promise<number> =>
    (await requestTableItem(url, { ...data, value_type: 'u64' }, `?ledger_version=${version}`, handle)).status
  const end = Number(deleted.version)
  t.match(await at(end - 16), { changes: [{ type: 'write_table_item', handle, data }] })
  t.same(await Promise.all([end - 17, end - 16, end - 1, end, end + 500].map(status)), [404, 200, 200, 404, 404])
  t.equal(
    (await requestTableItem(
      url,
      { ...data, key_type: 'u8', key: 1, value_type: 'u64' },
      `?ledger_version=${end - 1}`,
      handle
    ))
      .status,
    404,
    'keys are of one type'
  )
  const deletion = await at(versionOf('change delete_resource'))
  const [{ address, resource }] = deletion.changes
  const resourceAt = async (version: bigint): Promise<any> =>
    (await requestNode(`${url}/v1/accounts/${address}/resource/${resource}?ledger_version=${version}`)).json
  t.match(await resourceAt(BigInt(deletion.version) - 1n), { type: resource, data: { number: /^[0-9]+$/ } })
  t.equal((await resourceAt(BigInt(deletion.version))).error_code, 'resource_not_found')
})

t.test('genesis lists everything that exists, as changes and as a write set', async t => {
  const { url, at, ledger } = await start(t, { blocks: 5, prunedBlocks: 0, startVersion: 40n })
  const genesis = await at(40)
  t.match(genesis, {
    type: 'genesis_transaction',
    version: '40',
    success: true,
    state_checkpoint_hash: /^0x/,
    payload: { type: 'write_set_payload', write_set: { type: 'direct_write_set' } }
  })
  t.same(genesis.payload.write_set.changes, genesis.changes)
  t.same(genesis.payload.write_set.events, genesis.events)
  for (const address of ['0x1', '0x42', '0xcafe']) {
    const written = genesis.changes.filter((each: any) => each.address === address && each.type === 'write_module').map(
      ({ data }: any) => data
    )
    t.same(
      written,
      (await requestNode(`${url}/v1/accounts/${address}/modules?ledger_version=${ledger.startVersion}`)).json,
      address
    )
  }
})
