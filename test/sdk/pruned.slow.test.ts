import type { Aptos, AptosApiError } from '@aptos-labs/ts-sdk'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { startSandboxNode } from '../support/replicas.js'
import { freshSdk } from '../support/sdk/fresh-client.js'
import { clientOf } from '../support/sdk/calls.js'
import { varveAtSandbox } from '../support/varve.js'

// Uses a client without memory, which does not matter for blocks.
const sdk = freshSdk()
const version = 2000
const pruned = 600

/** Starts an archive, and a gateway to a pruned node of the same chain that names the archive in its 410s. */
async function archivedChain (
  t: Test,
  change: Parameters<typeof varveAtSandbox>[2]
): Promise<Awaited<ReturnType<typeof varveAtSandbox>> & { archive: Sandbox, body: string }> {
  const archive = await startSandboxNode(t)
  const { sandbox, varve } = await varveAtSandbox(t, {}, change)
  sandbox.ledger.pruneTo(pruned)
  // Members of a gateway's 410 (docs/node-behaviour.md, "Pruning: 410").
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
    throw new Error('it was not rejected')
  }, (error: AptosApiError) => error)
}

/** Follows a 410 to its archive, as later clients do by themselves. */
async function goOn (t: Test, { status, data }: AptosApiError): Promise<unknown> {
  t.equal(status, 410)
  const { archival_endpoint: url } = data as { archival_endpoint: string }
  return await readBlock(clientAt(t, url.replace(/\/v1$/, '')))
}

t.test('a gateway\'s 410 reaches the client unchanged and leads it to the block in the archive', async t => {
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

t.test('varve\'s own 410 names the archive that the gateway named last', async t => {
  const { sandbox, varve, archive, body } = await archivedChain(t, {})
  // Expects the gateway's body: varve does not know yet how far the node was pruned.
  t.equal(JSON.stringify((await errorOf(readBlock(clientAt(t, varve.url)))).data), body)
  const requestCount = sandbox.requests.total
  const local = await errorOf(readBlock(clientAt(t, varve.url)))
  t.equal(sandbox.requests.total, requestCount)
  t.same(local.data, { ...JSON.parse(body) as object, vm_error_code: null })
  t.same(await goOn(t, local), await readBlock(clientAt(t, archive.url)))
})
