import type { Account, Aptos, PendingTransactionResponse } from '@aptos-labs/ts-sdk'
import t, { type Test } from 'tap'
import { type Sandbox, type SandboxOptions } from '#sandbox'
import { chainAsset, primaryStore } from '../../sandbox/resources.js'
import { freshSdk } from '../support/sdk/fresh-client.js'
import { type ConfigChange, type TestVarve, varveAtSandbox } from '../support/varve.js'

const sdk = freshSdk()
// As tutorials fund an account, which covers what the client reserves for gas.
const funding = 100_000_000

interface Setting {
  readonly sandbox: Sandbox
  readonly varve: TestVarve
  readonly aptos: Aptos
}

/** Starts the sandbox, which adds blocks by itself, varve in front of it, and the client of varve. */
async function start (t: Test, options: SandboxOptions = {}, change: ConfigChange = {}): Promise<Setting> {
  t.capture(console, 'info')
  const log = { level: 'trace', access: true } as const
  const { sandbox, varve } = await varveAtSandbox(t, { blockMs: 20, ...options }, {
    passThrough: 'transactions',
    log,
    ...change
  })
  const { Aptos, AptosConfig, Network } = sdk
  const config = {
    network: Network.CUSTOM,
    fullnode: `${varve.url}/v1`,
    faucet: `${sandbox.url}/sandbox`,
    indexer: `${sandbox.url}/sandbox/indexer`
  }
  return { sandbox, varve, aptos: new Aptos(new AptosConfig(config)) }
}

async function funded (aptos: Aptos): Promise<Account> {
  const account = sdk.Account.generate()
  await aptos.fundAccount({ accountAddress: account.accountAddress, amount: funding })
  return account
}

function feeOf (transaction: object): bigint {
  const { gas_used: used, gas_unit_price: price } = transaction as { gas_used: string, gas_unit_price: string }
  return BigInt(used) * BigInt(price)
}

async function balanceOf (aptos: Aptos, account: Account): Promise<number> {
  return await aptos.getBalance({ accountAddress: account.accountAddress, asset: '0xa' })
}

t.test('the official client sends a transaction through varve and reads its effect', async t => {
  const { sandbox, varve, aptos } = await start(t)
  const [sender, recipient] = [await funded(aptos), sdk.Account.generate()]
  t.equal(await balanceOf(aptos, sender), funding)
  t.equal(await balanceOf(aptos, recipient), 0)
  const transaction = await aptos.transferCoinTransaction({
    sender: sender.accountAddress,
    recipient: recipient.accountAddress,
    amount: 1234
  })
  const [simulated] = await aptos.transaction.simulate.simple({ signerPublicKey: sender.publicKey, transaction })
  t.match(simulated, { success: true, gas_used: '6', payload: { function: '0x1::aptos_account::transfer_coins' } })
  t.equal(await balanceOf(aptos, recipient), 0, 'a simulation changes nothing')
  const submitted: PendingTransactionResponse = await aptos.signAndSubmitTransaction({ signer: sender, transaction })
  const committed = await aptos.waitForTransaction({ transactionHash: submitted.hash })
  t.match(committed, { type: 'user_transaction', success: true, hash: submitted.hash, sequence_number: '0' })
  t.equal(await balanceOf(aptos, recipient), 1234, 'the next latest read sees it')
  t.equal(BigInt(await balanceOf(aptos, sender)), BigInt(funding) - 1234n - feeOf(committed))
  t.match(await aptos.getAccountInfo({ accountAddress: sender.accountAddress }), { sequence_number: '1' })
  const list = await aptos.getAccountTransactions({ accountAddress: sender.accountAddress })
  t.same(list, [committed])
  const { version } = committed
  const store = `0x${primaryStore(recipient.accountAddress.toStringLongWithoutPrefix(), chainAsset)}`
  for (const [at, expected] of [[BigInt(version) - 1n, /^\[\]$/], [BigInt(version), /"balance":"1234"/]] as const) {
    t.match(await varve.get(`/v1/accounts/${store}/resources?ledger_version=${at}`), { status: 200, body: expected })
  }
  t.equal(sandbox.requests.countFor('submit_transaction'), 1, 'submitted once')
  t.equal(sandbox.requests.countFor('simulate_transaction'), 1)
  t.equal(await varve.metric('varve_requests_total{endpoint="other",outcome="forwarded",status="2xx"}'), 1)
  const signature = JSON.stringify(committed).match(/"signature":"0x([0-9a-f]{128})"/)?.[1] ?? ''
  t.equal(signature.length, 128)
  t.notOk(JSON.stringify(varve.log).includes(signature), 'no log line has the body')
})

t.test('the tutorial of the official client works as written', async t => {
  const { aptos } = await start(t)
  const [sender, recipient] = [await funded(aptos), sdk.Account.generate()]
  for (const name of ['0x1::aptos_account::transfer', '0x1::coin::transfer'] as const) {
    const transaction = await aptos.transaction.build.simple({
      sender: sender.accountAddress,
      data: {
        function: name,
        typeArguments: name === '0x1::coin::transfer' ? ['0x1::aptos_coin::AptosCoin'] : [],
        functionArguments: [recipient.accountAddress, 100]
      }
    })
    const { hash } = await aptos.signAndSubmitTransaction({ signer: sender, transaction })
    t.match(await aptos.waitForTransaction({ transactionHash: hash }), { success: true })
  }
  t.equal(await balanceOf(aptos, recipient), 200)
})

t.test('the client sees the errors of the node: too little to send, a used number', async t => {
  const { aptos } = await start(t)
  const [sender, other] = [await funded(aptos), sdk.Account.generate()]
  const transfer = async (amount: number, signer = sender): Promise<PendingTransactionResponse> =>
    await aptos.signAndSubmitTransaction({
      signer,
      transaction: await aptos.transferCoinTransaction({
        sender: signer.accountAddress,
        recipient: other.accountAddress,
        amount,
        options: { accountSequenceNumber: 0 }
      })
    })
  await t.rejects(transfer(1, other), { message: /INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE/ })
  const { hash } = await transfer(funding)
  const failed = await aptos.waitForTransaction({ transactionHash: hash, options: { checkSuccess: false } })
  t.match(failed, { success: false, vm_status: /EINSUFFICIENT_BALANCE/ })
  t.equal(BigInt(await balanceOf(aptos, sender)), BigInt(funding) - feeOf(failed), 'a failed transaction costs its fee')
  await t.rejects(transfer(1), { message: /SEQUENCE_NUMBER_TOO_OLD/ })
  t.equal(await balanceOf(aptos, other), 0)
})

t.test('several transactions of one account are committed in the order of their numbers', async t => {
  const { aptos } = await start(t)
  const [sender, recipient] = [await funded(aptos), sdk.Account.generate()]
  const hashes: string[] = []
  for (const number of [2, 0, 1]) {
    const transaction = await aptos.transferCoinTransaction({
      sender: sender.accountAddress,
      recipient: recipient.accountAddress,
      amount: 100 + number,
      options: { accountSequenceNumber: number }
    })
    hashes[number] = (await aptos.signAndSubmitTransaction({ signer: sender, transaction })).hash
  }
  const versions: number[] = []
  for (const transactionHash of hashes) {
    versions.push(Number((await aptos.waitForTransaction({ transactionHash })).version))
  }
  t.same(versions, versions.toSorted((a, b) => a - b))
  t.equal(await balanceOf(aptos, recipient), 303)
})
