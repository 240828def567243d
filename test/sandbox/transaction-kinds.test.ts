import t, { type Test } from 'tap'
import { type SandboxOptions } from '#sandbox'
import { change } from '../../sandbox/schema/change.js'
import { keySignature, publicKey } from '../../sandbox/schema/key.js'
import { payload } from '../../sandbox/schema/payload.js'
import { accountSignature, transactionSignature } from '../../sandbox/schema/signature.js'
import { committedTransaction, transaction } from '../../sandbox/schema/transaction.js'
import { pendingTransactions } from '../../sandbox/transactions.js'
import { transactionKindsOf } from '../support/transaction-kinds.js'
import { requestNode, requestTableItem } from './request-node.js'
import { startSandboxNode } from '../support/replicas.js'

// Every kind, with its first version among the unpruned ones of the default ledger, very large blocks aside.
const table: Readonly<Record<string, number>> = {
  'transaction block_metadata_transaction': 445,
  'transaction state_checkpoint_transaction': 448,
  'transaction user_transaction': 453,
  'transaction block_epilogue_transaction': 451,
  'transaction genesis_transaction': 473,
  'transaction validator_transaction': 450,
  'validator transaction observed_jwk_update': 536,
  'validator transaction dkg_result': 965,
  'validator transaction chunky_d_k_g_result': 450,
  'payload entry_function_payload': 453,
  'payload write_set_payload': 473,
  'payload script_payload': 554,
  'payload module_bundle_payload': 558,
  'payload multisig_payload': 560,
  'payload encrypted_transaction_payload': 570,
  'script abi present': 554,
  'script abi null': 812,
  'write set direct_write_set': 655,
  'write set script_write_set': 473,
  'multisig entry_function_payload': 560,
  'multisig null': 692,
  'multisig script_payload': 1202,
  'encrypted decrypted': 570,
  'encrypted encrypted': 694,
  'encrypted failed_decryption': 830,
  'decrypted script_payload': 570,
  'decrypted multisig_payload': 572,
  'decrypted entry_function_payload': 1208,
  'transaction signature ed25519_signature': 453,
  'transaction signature multi_agent_signature': 514,
  'transaction signature fee_payer_signature': 522,
  'transaction signature single_sender': 528,
  'transaction signature no_account_signature': 550,
  'transaction signature multi_ed25519_signature': 640,
  'single sender with public_key': 528,
  'single sender with auth_data': 674,
  'single sender with nothing': 676,
  'single sender with public_keys': 1184,
  'account signature ed25519_signature': 514,
  'account signature multi_ed25519_signature': 514,
  'account signature multi_key_signature': 516,
  'account signature single_key_signature': 516,
  'account signature abstract_signature': 652,
  'account signature abstraction_signature': 652,
  'account signature no_account_signature': 782,
  'key ed25519': 516,
  'key keyless': 516,
  'key secp256k1_ecdsa': 516,
  'key secp256r1_ecdsa': 522,
  'key federated_keyless': 538,
  'key slh_dsa__sha2_128s': 542,
  'signature ed25519': 516,
  'signature keyless': 516,
  'signature web_authn': 522,
  'signature secp256k1_ecdsa': 530,
  'signature federated_keyless': 540,
  'signature slh_dsa__sha2_128s': 542,
  'signature secp256r1_ecdsa': 662,
  'change write_resource': 445,
  'change write_table_item': 453,
  'change write_table_item alone': 453,
  'change write_module': 460,
  'change delete_table_item': 469,
  'change delete_table_item alone': 469,
  'change delete_module': 592,
  'change delete_table_item decoded': 1201,
  'change delete_resource': 499,
  'change write_table_item decoded': 673,
  'block metadata v2': 445,
  'block metadata without extension': 447,
  'block metadata v0': 449,
  'block metadata v1': 452,
  'block end info present': 451,
  'block end info null': 462,
  'event of a stream': 445,
  'event of a module': 454,
  'failed user_transaction': 454,
  nonce: 456
}

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

t.test('every kind of transaction, payload, signature, key and change is in the ledger as listed', async t => {
  const { at, ledger } = await start(t)
  t.ok(Object.keys(table).length > 70)
  for (const [kind, version] of Object.entries(table)) {
    t.ok(version >= ledger.oldest.version, `${kind} is not pruned`)
    const record = await at(version)
    t.ok(transactionKindsOf(record).has(kind), `${kind} at ${version}`)
    t.equal(
      JSON.stringify(committedTransaction.parse(record)),
      JSON.stringify(record),
      'it matches its schema, in member order'
    )
  }
})

// Returns the kinds that a schema distinguishes by a member.
function namesOf (schema: any, member = 'type'): string[] {
  if (schema.options === undefined) return [schema.shape[member]?.value].filter(name => name !== undefined)
  return schema.options.flatMap((option: any) => namesOf(option, member))
}

t.test('the table has exactly the kinds that the schemas have', async t => {
  const known: Readonly<Record<string, string[]>> = {
    transaction: namesOf(committedTransaction),
    'validator transaction': namesOf(committedTransaction, 'validator_transaction_type'),
    payload: [...namesOf(payload), 'write_set_payload'],
    encrypted: namesOf(payload, 'encrypted_state'),
    'transaction signature': namesOf(transactionSignature),
    'account signature': namesOf(accountSignature),
    key: namesOf(publicKey),
    signature: namesOf(keySignature),
    change: namesOf(change)
  }
  for (const [group, names] of Object.entries(known)) {
    const kinds = Object.keys(table).filter(kind => kind.replace(/ [^ ]+$/, '') === group)
    t.same(kinds.sort(), [...new Set(names)].map(name => `${group} ${name}`).sort(), group)
  }
  t.same(
    namesOf(transaction).filter(name => !namesOf(committedTransaction).includes(name)),
    ['pending_transaction'],
    'a pending transaction is in no block'
  )
})

const common = [
  'version',
  'hash',
  'state_change_hash',
  'event_root_hash',
  'state_checkpoint_hash',
  'gas_used',
  'success',
  'vm_status',
  'accumulator_root_hash',
  'changes'
]
const request = [
  'sender',
  'sequence_number',
  'max_gas_amount',
  'gas_unit_price',
  'expiration_timestamp_secs',
  'payload',
  'signature',
  'replay_protection_nonce'
]
const metadata = [
  'id',
  'epoch',
  'round',
  'events',
  'previous_block_votes_bitvec',
  'proposer',
  'failed_proposer_indices',
  'timestamp'
]
const several = ['sender', 'secondary_signer_addresses', 'secondary_signers']
const item = ['state_key_hash', 'handle', 'key']
const sealed = ['payload_hash', 'ciphertext', 'encryption_epoch', 'claimed_entry_fun']

// Members of each kind, in the order of full nodes.
const members: Readonly<Record<string, string[]>> = {
  'transaction user_transaction': [...common, ...request, 'events', 'timestamp'],
  'transaction genesis_transaction': [...common, 'payload', 'events'],
  'block metadata without extension': [...common, ...metadata],
  'block metadata v2': [...common, ...metadata, 'block_metadata_extension'],
  'transaction state_checkpoint_transaction': [...common, 'timestamp'],
  'transaction block_epilogue_transaction': [...common, 'timestamp', 'block_end_info'],
  'validator transaction observed_jwk_update': [
    ...common,
    'events',
    'timestamp',
    'quorum_certified_update',
    'validator_transaction_type'
  ],
  'validator transaction dkg_result': [
    ...common,
    'events',
    'timestamp',
    'dkg_transcript',
    'validator_transaction_type'
  ],
  'validator transaction chunky_d_k_g_result': [
    ...common,
    'events',
    'timestamp',
    'certified_subtrx',
    'encryption_key',
    'validator_transaction_type'
  ]
}

const parts: ReadonlyArray<readonly [kind: string, path: string, members: string[]]> = [
  ['payload entry_function_payload', 'payload', ['function', 'type_arguments', 'arguments', 'type']],
  ['payload script_payload', 'payload', ['code', 'type_arguments', 'arguments', 'type']],
  ['payload script_payload', 'payload.code', ['bytecode', 'abi']],
  ['script abi present', 'payload.code.abi', [
    'name',
    'visibility',
    'is_entry',
    'is_view',
    'generic_type_params',
    'params',
    'return'
  ]],
  ['payload module_bundle_payload', 'payload', ['type']],
  ['payload multisig_payload', 'payload', ['multisig_address', 'transaction_payload', 'type']],
  ['multisig entry_function_payload', 'payload.transaction_payload', [
    'function',
    'type_arguments',
    'arguments',
    'type'
  ]],
  ['encrypted encrypted', 'payload', [...sealed, 'encrypted_state', 'type']],
  ['encrypted failed_decryption', 'payload', [...sealed, 'encrypted_state', 'type']],
  ['encrypted decrypted', 'payload', [...sealed, 'decrypted_payload', 'decryption_nonce', 'encrypted_state', 'type']],
  ['write set direct_write_set', 'payload', ['write_set', 'type']],
  ['write set direct_write_set', 'payload.write_set', ['changes', 'events', 'type']],
  ['write set script_write_set', 'payload.write_set', ['execute_as', 'script', 'type']],
  ['write set script_write_set', 'payload.write_set.script', ['code', 'type_arguments', 'arguments']],
  ['transaction signature ed25519_signature', 'signature', ['public_key', 'signature', 'type']],
  ['transaction signature multi_ed25519_signature', 'signature', [
    'public_keys',
    'signatures',
    'threshold',
    'bitmap',
    'type'
  ]],
  ['transaction signature multi_agent_signature', 'signature', [...several, 'type']],
  ['transaction signature fee_payer_signature', 'signature', [
    ...several,
    'fee_payer_address',
    'fee_payer_signer',
    'type'
  ]],
  ['transaction signature no_account_signature', 'signature', ['type']],
  ['single sender with public_key', 'signature', ['public_key', 'signature', 'type']],
  ['single sender with public_keys', 'signature', ['public_keys', 'signatures', 'signatures_required', 'type']],
  ['single sender with auth_data', 'signature', ['function_info', 'auth_data', 'type']],
  ['single sender with public_keys', 'signature.signatures.0', ['index', 'signature']],
  ['key slh_dsa__sha2_128s', 'signature.public_key', ['value', 'type']],
  ['account signature single_key_signature', 'signature.sender', ['public_key', 'signature', 'type']],
  ['account signature abstract_signature', 'signature.fee_payer_signer', ['function_info', 'auth_data', 'type']],
  ['change write_resource', 'changes.0', ['address', 'state_key_hash', 'data', 'type']],
  ['change write_resource', 'changes.0.data', ['type', 'data']],
  ['change write_module', 'changes.0', ['address', 'state_key_hash', 'data', 'type']],
  ['change write_module', 'changes.0.data', ['bytecode', 'abi']],
  ['change write_table_item decoded', 'changes.0', [...item, 'value', 'data', 'type']],
  ['change write_table_item decoded', 'changes.0.data', ['key', 'key_type', 'value', 'value_type']],
  ['change delete_resource', 'changes.0', ['address', 'state_key_hash', 'resource', 'type']],
  ['change delete_module', 'changes.0', ['address', 'state_key_hash', 'module', 'type']],
  ['change delete_table_item decoded', 'changes.0', [...item, 'data', 'type']],
  ['change delete_table_item decoded', 'changes.0.data', ['key', 'key_type']],
  ['event of a stream', 'events.0', ['guid', 'sequence_number', 'type', 'data']],
  ['event of a stream', 'events.0.guid', ['creation_number', 'account_address']],
  ['block metadata v0', 'block_metadata_extension', ['type']],
  ['block metadata v1', 'block_metadata_extension', ['randomness', 'type']],
  ['block metadata v2', 'block_metadata_extension', ['randomness', 'decryption_key', 'type']],
  ['block end info present', 'block_end_info', [
    'block_gas_limit_reached',
    'block_output_limit_reached',
    'block_effective_block_gas_units',
    'block_approx_output_size'
  ]],
  ['validator transaction observed_jwk_update', 'quorum_certified_update', ['update', 'multi_sig']],
  ['validator transaction observed_jwk_update', 'quorum_certified_update.update', ['issuer', 'version', 'jwks']],
  ['validator transaction observed_jwk_update', 'quorum_certified_update.multi_sig', ['signer_indices', 'sig']],
  ['validator transaction dkg_result', 'dkg_transcript', ['epoch', 'author', 'payload']]
]

t.test('members have the names and the order of full nodes', async t => {
  const { at } = await start(t)
  for (const [kind, names] of Object.entries(members)) {
    t.same(Object.keys(await at(Number(table[kind]))), [...names, 'type'], kind)
  }
  for (const [kind, path, names] of parts) {
    const part = path.split('.').reduce((within, name) => within[name], await at(Number(table[kind])))
    t.same(Object.keys(part), names, `${path} of ${kind}`)
  }
})

t.test('a failed transaction has its status and gas; a nonce can replace the sequence number', async t => {
  const { at, blockAt } = await start(t)
  const statuses = new Set<string>()
  for (let height = 100; height < 220; height++) {
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
  t.match(await at(Number(table['nonce'])), {
    sequence_number: '18446744073709551615',
    replay_protection_nonce: /^[0-9]+$/
  })
  t.match(await at(Number(table['event of a module'])), {
    events: [{ guid: { creation_number: '0', account_address: '0x0' }, sequence_number: '0' }]
  })
})

t.test('every change matches a read at its version', async t => {
  const { url, blockAt } = await start(t)
  const bcs = { accept: 'application/x-bcs' }
  const seen = new Map<string, number>()
  const some = Array.from({ length: 40 }, (_, index) => `by_height/${100 + index}`)
  const chosen = Object.entries(table).filter(([kind]) => kind.startsWith('change')).map(([, version]) =>
    `by_version/${version}`
  )
  for (const path of new Set([...some, ...chosen])) {
    for (const { version, changes } of (await blockAt(path)).transactions) {
      const when = `?ledger_version=${version}`
      const read = async (path: string): Promise<any> => (await requestNode(`${url}/v1/accounts/${path}${when}`)).json
      for (const each of changes) {
        seen.set(each.type, Number(seen.get(each.type) ?? 0) + 1)
        if (each.type === 'write_resource') {
          t.same(await read(`${each.address}/resource/${encodeURIComponent(each.data.type)}`), each.data)
        } else if (each.type === 'delete_resource') {
          t.equal((await read(`${each.address}/resource/${each.resource}`)).error_code, 'resource_not_found')
        } else if (each.type === 'write_module') {
          t.ok(
            (await read(`${each.address}/modules`)).some((module: unknown) =>
              JSON.stringify(module) === JSON.stringify(each.data)
            )
          )
        } else if (each.type === 'delete_module') {
          t.equal(
            (await read(`${each.address}/module/${each.module.split('::').at(-1)}`)).error_code,
            'module_not_found'
          )
        } else {
          const found = await requestNode(`${url}/v1/tables/${each.handle}/raw_item${when}`, {
            method: 'POST',
            headers: { ...bcs, 'content-type': 'application/json' },
            body: JSON.stringify({ key: each.key })
          })
          if (each.type === 'delete_table_item') t.equal(found.json.error_code, 'table_item_not_found')
          else t.equal(each.value, `0x${found.body.toString('hex')}`)
          if (each.data?.value === undefined) continue
          t.same((await requestTableItem(url, each.data, when, each.handle)).json, each.data.value)
        }
      }
    }
  }
  t.same([...seen.keys()].sort(), namesOf(change).sort())
})

t.test('a deleted item or resource exists from its write to its deletion', async t => {
  const { url, at } = await start(t)
  const deleted = await at(Number(table['change delete_table_item decoded']))
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
  const deletion = await at(Number(table['change delete_resource']))
  const [{ address, resource }] = deletion.changes
  const resourceAt = async (version: bigint): Promise<any> =>
    (await requestNode(`${url}/v1/accounts/${address}/resource/${resource}?ledger_version=${version}`)).json
  t.match(await resourceAt(BigInt(deletion.version) - 1n), { type: resource, data: { number: /^[0-9]+$/ } })
  t.equal((await resourceAt(BigInt(deletion.version))).error_code, 'resource_not_found')
})

t.test('genesis lists everything that exists, as changes and as a write set', async t => {
  const { url, at, ledger } = await start(t, { blocks: 5, prunedBlocks: 0, startVersion: 40n })
  const genesis = await at(40)
  t.equal(committedTransaction.parse(genesis).type, 'genesis_transaction')
  t.match(genesis, {
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

t.test('changes of a transaction include what its deposits and known accounts do', async t => {
  const { blockAt, ledger } = await start(t)
  const store = '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>'
  let [deposits, sendings] = [0, 0]
  for (let height = 120; height < 180; height++) {
    for (
      const { sender, sequence_number: sequence, payload, changes, events } of (await blockAt(`by_height/${height}`))
        .transactions
    ) {
      const of = (type: string, address: string): any =>
        changes.find((each: any) => each.address === address && each.data?.type === type)?.data.data
      const deposit = events?.find(({ type }: any) => type === '0x1::coin::DepositEvent')
      if (deposit !== undefined) {
        deposits++
        t.equal(of(store, '0xcafe').deposit_events.counter, String(Number(deposit.sequence_number) + 1))
        if (payload !== undefined) t.same(payload.arguments, ['0xcafe', deposit.data.amount])
      }
      if (sender !== '0xa11ce' && sender !== '0xb0b') continue
      sendings++
      t.equal(of('0x1::account::Account', sender).sequence_number, String(Number(sequence) + 1))
      t.ok(changes.some(({ data }: any) => data?.type === '0x1::fungible_asset::FungibleStore'))
    }
  }
  t.equal(deposits, 20)
  t.equal(sendings, ledger.knownSendHeights.filter(height => height >= 120 && height < 180).length)
})

t.test('a pending transaction is committed in the next block under its hash, with the same content', async t => {
  const { blockAt, ledger } = await start(t, { blocks: 300 })
  let waited = 0
  for (let round = 0; round < 60; round++) {
    const pending = pendingTransactions(ledger, ledger.height)
    ledger.grow()
    const { transactions } = await blockAt(`by_height/${ledger.height}`)
    for (const { type, ...rest } of pending) {
      waited++
      t.equal(transaction.parse({ ...rest, type }).type, 'pending_transaction')
      t.same(Object.keys(rest), ['hash', ...request])
      t.match(transactions.find(({ hash }: any) => hash === rest.hash), { ...rest, type: 'user_transaction' })
    }
    t.same(
      pendingTransactions(ledger, ledger.height - 1),
      pending,
      'the pending transaction is committed once the chain has grown'
    )
  }
  t.ok(waited > 60, `${waited}`)
})

t.test('the block shows where the coin store of 0xcafe is destroyed and recreated', async t => {
  const { blockAt } = await start(t, { blocks: 80, prunedBlocks: 0, recreation: { destroyedAt: 31, recreatedAt: 61 } })
  const changesAt = async (height: number): Promise<any[]> =>
    (await blockAt(`by_height/${height}`)).transactions[0].changes.filter(({ address }: any) => address === '0xcafe')
  t.match(await changesAt(31), [{
    type: 'delete_resource',
    resource: '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>'
  }])
  t.match(await changesAt(61), [{ data: { data: { guid_creation_num: '6' } } }, {
    type: 'write_resource',
    data: { data: { deposit_events: { counter: '0' } } }
  }])
  t.same(await changesAt(32), [])
})
