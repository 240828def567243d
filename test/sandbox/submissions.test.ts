import { generateKeyPairSync, hash, type KeyObject, sign } from 'node:crypto'
import t from 'tap'
import { rawTransactionBytes, signedTransactionBytes } from '../../sandbox/kinds/bytes.js'
import { Ledger } from '../../sandbox/ledger.js'
import { defaultSettings } from '../../sandbox/options.js'
import { dispatch } from '../../sandbox/serve-request.js'
import { type UserRequest } from '../../sandbox/records.js'
import { signingMessage, fundAccount } from '../../sandbox/submit-transaction.js'
import { transactionRecord } from '../../sandbox/transactions.js'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'

const bcs = 'application/x.aptos.signed_transaction+bcs'
const recipient = 'be11'.padStart(64, '0')

interface Key {
  readonly address: string
  readonly publicKey: Buffer
  readonly privateKey: KeyObject
}

function newKey (): Key {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const raw = Buffer.from(String(publicKey.export({ format: 'jwk' }).x), 'base64url')
  return { address: hash('sha3-256', Buffer.concat([raw, Buffer.from([0])]), 'hex'), publicKey: raw, privateKey }
}

function newLedger (blocks = 20): Ledger {
  return new Ledger({ ...defaultSettings, blocks, prunedBlocks: 0 })
}

/** Makes a transfer, by default signed by its sender. */
function transfer (
  { address, publicKey, privateKey }: Key,
  sequence: number,
  amount: number,
  { chainId = 4, isSigned = true, expiration = 4_000_000_000, name = '0x1::aptos_account::transfer' } = {}
): Buffer {
  const request: Omit<UserRequest, 'signature'> = {
    sender: `0x${address}`,
    sequence_number: String(sequence),
    max_gas_amount: '2000',
    gas_unit_price: '100',
    expiration_timestamp_secs: String(expiration),
    payload: {
      function: name,
      type_arguments: [],
      arguments: [`0x${recipient}`, String(amount)],
      type: 'entry_function_payload'
    },
    replay_protection_nonce: null
  }
  const signature = isSigned
    ? sign(null, signingMessage(rawTransactionBytes(request, chainId)), privateKey)
    : Buffer.alloc(64)
  return signedTransactionBytes({
    ...request,
    signature: {
      public_key: `0x${publicKey.toString('hex')}`,
      signature: `0x${signature.toString('hex')}`,
      type: 'ed25519_signature'
    }
  }, chainId)
}

function send (
  ledger: Ledger,
  target: string,
  body?: Buffer,
  contentType = bcs,
  accept = 'application/json'
): { status: number, text: string, bytes: Buffer } {
  const { status, body: bytes } = dispatch(
    {
      method: body === undefined ? 'GET' : 'POST',
      rawTarget: `/v1${target}`,
      contentLength: String(body?.length ?? 0),
      contentType,
      accept,
      body: body ?? Buffer.alloc(0),
      requestIndex: 0
    },
    { ledger, position: ledger.position() },
    defaultSettings
  )
  return { status, text: bytes.toString(), bytes }
}

const balance = (ledger: Ledger, address: string, version?: bigint): string =>
  send(
    ledger,
    `/accounts/0x${address}/balance/0xa${version === undefined ? '' : `?ledger_version=${version}`}`
  ).text

t.test('a submitted transfer is pending, then committed, and the state is the fold of its changes', async t => {
  const [ledger, key] = [newLedger(), newKey()]
  fundAccount(ledger, key.address, 10_000_000n)
  ledger.grow()
  t.equal(balance(ledger, key.address), '10000000')
  const bytes = transfer(key, 0, 5000)
  const submitted = send(ledger, '/transactions', bytes)
  t.equal(submitted.status, 202)
  const { hash: id, type } = JSON.parse(submitted.text) as { hash: string, type: string }
  const expected = hash(
    'sha3-256',
    Buffer.concat([Buffer.from(hash('sha3-256', 'APTOS::Transaction', 'hex'), 'hex'), Buffer.from([0]), bytes]),
    'hex'
  )
  t.same([type, id], ['pending_transaction', `0x${expected}`])
  t.equal(send(ledger, '/transactions', bytes).status, 202, 'the same transaction again changes nothing')
  t.match(JSON.parse(send(ledger, `/transactions/by_hash/${id}`).text), { type: 'pending_transaction' })
  ledger.grow()
  const committed = JSON.parse(send(ledger, `/transactions/by_hash/${id}`).text) as {
    version: string,
    changes: Array<{ address: string, data: { type: string } }>
  }
  t.match(committed, { type: 'user_transaction', success: true, sender: `0x${key.address.replace(/^0+/, '')}` })
  const version = BigInt(committed.version)
  t.equal(send(ledger, `/transactions/by_version/${version}`).text, JSON.stringify(committed))
  const raw = send(ledger, `/transactions/by_version/${version}`, undefined, bcs, 'application/x-bcs').bytes
  t.ok(raw.includes(bytes), 'BCS has the signed transaction as it was submitted')
  t.equal(committed.changes.length, 5, 'the account of the sender, and two members of each store')
  for (const { address, data } of committed.changes) {
    const read = `/accounts/${address}/resource/${encodeURIComponent(data.type)}?ledger_version=`
    t.equal(send(ledger, read + version).text, JSON.stringify(data), data.type)
    // An object stays what it is.
    if (data.type.endsWith('ObjectCore')) continue
    t.not(send(ledger, read + (version - 1n)).text, JSON.stringify(data), `${data.type} before`)
  }
  t.same([balance(ledger, recipient, version - 1n), balance(ledger, recipient)], ['0', '5000'])
  t.equal(balance(ledger, key.address), String(10_000_000 - 5000 - 600))
  t.match(send(ledger, `/accounts/0x${key.address}`).text, '"sequence_number":"1"')
})

t.test('the root of a transaction commits to what clients submitted up to it', async t => {
  const [ledger, other, key] = [newLedger(), newLedger(), newKey()]
  fundAccount(ledger, key.address, 10_000_000n)
  fundAccount(other, key.address, 10_000_001n)
  const before = ledger.head.version
  for (const one of [ledger, other]) one.grow(2)
  const rootAt = (one: Ledger, version: bigint): unknown =>
    JSON.parse(send(one, `/transactions/by_version/${version}`).text).accumulator_root_hash
  t.equal(rootAt(ledger, before), rootAt(other, before))
  const { version } = ledger.head
  t.equal(version, other.head.version)
  const root = rootAt(ledger, version)
  t.not(root, rootAt(other, version))
  send(ledger, '/transactions/simulate', transfer(key, 0, 5000, { isSigned: false }))
  t.equal(rootAt(ledger, version), root, 'and not to a simulation')
})

t.test('a simulation has the effects of a transaction, and changes nothing', async t => {
  const [ledger, key] = [newLedger(), newKey()]
  fundAccount(ledger, key.address, 10_000_000n)
  ledger.grow()
  const before = balance(ledger, key.address)
  const { status, text } = send(ledger, '/transactions/simulate', transfer(key, 0, 5000, { isSigned: false }))
  t.match([status, JSON.parse(text)], [200, [{ success: true, gas_used: '6', type: 'user_transaction' }]])
  t.match(text, '"balance":"5000"')
  t.same([balance(ledger, key.address), balance(ledger, recipient)], [before, '0'])
  const failing = send(ledger, '/transactions/simulate', transfer(key, 0, 20_000_000, { isSigned: false }))
  t.match(JSON.parse(failing.text), [{ success: false, vm_status: /EINSUFFICIENT_BALANCE/ }])
  t.match(send(ledger, '/transactions/simulate', transfer(key, 0, 1)).text, /must not have a valid signature/)
})

t.test('an invalid transaction is rejected with the error of nodes', async t => {
  const [ledger, key] = [newLedger(), newKey()]
  fundAccount(ledger, key.address, 10_000_000n)
  ledger.grow()
  const other = newKey()
  const cases: Array<[body: Buffer, status: number, message: RegExp]> = [
    [transfer(key, 0, 1, { chainId: 5 }), 400, /BAD_CHAIN_ID.*"vm_error_code":22/],
    [transfer({ ...key, address: other.address }, 0, 1), 400, /INVALID_AUTH_KEY/],
    [transfer(key, 0, 1, { isSigned: false }), 400, /INVALID_SIGNATURE/],
    [transfer(key, 0, 1, { expiration: 1 }), 400, /TRANSACTION_EXPIRED/],
    [transfer(other, 0, 1), 400, /INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE/],
    [Buffer.from('nonsense'), 400, /Failed to deserialize input into SignedTransaction/]
  ]
  for (const [body, status, message] of cases) t.match(send(ledger, '/transactions', body), { status, text: message })
  t.equal(send(ledger, '/transactions', Buffer.from('{}'), 'application/json').status, 415)
  t.equal(send(ledger, '/transactions', transfer(key, 0, 1)).status, 202)
  t.match(send(ledger, '/transactions', transfer(key, 0, 2)).text, /invalid_transaction_update/)
  ledger.grow()
  t.match(send(ledger, '/transactions', transfer(key, 0, 3)).text, /SEQUENCE_NUMBER_TOO_OLD/)
  t.equal(send(ledger, '/transactions', transfer(key, 1, 3, { name: '0x42::game::win' })).status, 202)
  ledger.grow()
  const { version } = ledger.head
  t.match(transactionRecord(ledger, ledger.blockOf(version), version - 1n), {
    success: false,
    vm_status: 'LINKER_ERROR'
  })
})

t.test('the faucet answers as those of test chains, and rejects anything else', async t => {
  const sandbox = await startSandboxNode(t, { prunedBlocks: 0 })
  const ask = async (body: object): Promise<{ status: number, body: string }> =>
    await sendRequest(sandbox.url, '/sandbox/fund', { method: 'POST', body: JSON.stringify(body) })
  t.match(await ask({ address: `0x${recipient}`, amount: 7 }), {
    status: 200,
    body: /^\{"txn_hashes":\["0x[0-9a-f]{64}"\]\}/
  })
  for (
    const body of [{}, { address: 'x', amount: 1 }, { address: '0x1', amount: 0 }, { address: '0x1', amount: 1e15 }]
  ) {
    t.match(await ask(body), { status: 400 })
  }
  sandbox.ledger.grow()
  t.equal((await sendRequest(sandbox.url, `/v1/accounts/0x${recipient}/balance/0xa`)).body, '7')
})
