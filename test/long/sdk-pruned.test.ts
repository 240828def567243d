import type { Aptos, AptosApiError } from '@aptos-labs/ts-sdk'
import t, { type Test } from 'tap'
import { type Sandbox, startSandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { freshSdk } from '../support/sdk/fresh-client.js'
import { clientOf } from '../support/sdk/call-result.js'
import { varveAtSandbox } from '../support/varve.js'

// Blocks are nothing that it remembers.
const sdk = freshSdk()
const version = 2000
const pruned = 600

/** A chain's archive, and a gateway to a pruned node of it that names the archive in its 410s. */
async function archivedChain (
  t: Test,
  change: Parameters<typeof varveAtSandbox>[2]
): Promise<Awaited<ReturnType<typeof varveAtSandbox>> & { archive: Sandbox, body: string }> {
  const archive = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await archive.close()
  })
  const { sandbox, varve } = await varveAtSandbox(t, {}, change)
  sandbox.ledger.pruneTo(pruned)
  // Members of a 410 as a gateway sends it (docs/node-behaviour.md, "Pruning: 410").
  const body = JSON.stringify({
    error_code: 'version_pruned',
    message: `Ledger version(${version}) has been pruned`,
    hint: 'the archive has it',
    oldest_ledger_version: String(sandbox.ledger.oldest.version),
    archival_endpoint: `${archive.url}/v1`
  })
  sandbox.faults.add({ kind: 'body', match: 'block_by_version', body })
  sandbox.faults.add({
    kind: 'headers',
    match: 'block_by_version',
    set: { 'x-aptos-archival-endpoint': `${archive.url}/v1` }
  })
  return { sandbox, varve, archive, body }
}

function clientAt (t: Test, url: string): Aptos {
  t.capture(console, 'info')
  return clientOf(sdk, url)
}

const readBlock = async (aptos: Aptos): Promise<unknown> => await aptos.getBlockByVersion({ ledgerVersion: version })

async function errorOf (read: Promise<unknown>): Promise<AptosApiError> {
  return await read.then(() => {
    throw new Error('it was not refused')
  }, (error: AptosApiError) => error)
}

/** Goes on where a 410 says, as later clients do by themselves. */
async function goOn (t: Test, { status, data }: AptosApiError): Promise<unknown> {
  t.equal(status, 410)
  const { archival_endpoint: url } = data as { archival_endpoint: string }
  return await readBlock(clientAt(t, url.replace(/\/v1$/, '')))
}

t.test('a 410 in which a gateway names an archive reaches the client as it is, member by member, and leads it to the block', async t => {
  const { sandbox, varve, archive, body } = await archivedChain(t, { pruned: { answerLocally: false } })
  const direct = await errorOf(readBlock(clientAt(t, sandbox.url)))
  t.same(direct.data, JSON.parse(body))
  for (const times of ['first', 'second']) {
    const through = await errorOf(readBlock(clientAt(t, varve.url)))
    t.same(
      [through.status, through.statusText, JSON.stringify(through.data)],
      [410, direct.statusText, body],
      `the ${times} time`
    )
    t.equal(through.message.replace(varve.url, sandbox.url), direct.message)
    t.same(await goOn(t, through), await readBlock(clientAt(t, archive.url)))
  }
  t.equal(
    (await varve.get(`/v1/blocks/by_version/${version}`)).headers['x-aptos-archival-endpoint'],
    `${archive.url}/v1`
  )
})

t.test('when varve says 410 by itself, it names the archive that the gateway last named', async t => {
  const { sandbox, varve, archive, body } = await archivedChain(t, {})
  // varve does not know yet how far the node was pruned.
  t.equal(JSON.stringify((await errorOf(readBlock(clientAt(t, varve.url)))).data), body)
  const asked = sandbox.requests.total
  const local = await errorOf(readBlock(clientAt(t, varve.url)))
  t.equal(sandbox.requests.total, asked)
  t.same(local.data, { ...JSON.parse(body) as object, vm_error_code: null })
  t.same(await goOn(t, local), await readBlock(clientAt(t, archive.url)))
})

t.test('what varve has kept it gives the client after the node has pruned it, and no archive is needed', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const before = await readBlock(clientAt(t, varve.url))
  sandbox.ledger.pruneTo(pruned)
  t.equal((await sendRequest(sandbox.url, `/v1/blocks/by_version/${version}`)).status, 410)
  t.same(await readBlock(clientAt(t, varve.url)), before)
})
