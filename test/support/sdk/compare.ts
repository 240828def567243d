import { type Test } from 'tap'
import { endpointNames } from '../../../src/api/endpoints.js'
import { transactionHash } from '../../../sandbox/transactions.js'
import { type EndpointName, type Sandbox } from '#sandbox'
import { pendingTransactions } from '../../../sandbox/transactions.js'
import { type Call, type ChainFixture } from './calls.js'
import { type SdkReader } from './fresh-client.js'

/** Returns the parts of a sandbox's chain that calls read. */
export function chainFixtureOf ({ ledger }: Sandbox): ChainFixture {
  const block = ledger.block(446)
  const { version, blockHeight } = ledger.oldest
  const [pending] = pendingTransactions(ledger, ledger.height)
  return {
    version: String(block.firstVersion + 2n),
    // Uses another block: a stored one would need no upstream.
    height: String(block.height + 1n),
    prunedVersion: String(version - 1n),
    prunedHeight: String(blockHeight - 1n),
    futureVersion: String(ledger.head.version + 1_000_000n),
    hash: transactionHash(ledger, block.firstVersion + 1n),
    pendingHash: String(pending?.hash)
  }
}

/** Three clients without memory: one directly at the node, and two in turn through varve. */
export interface Readers {
  readonly direct: SdkReader
  readonly first: SdkReader
  readonly second: SdkReader
}

/** Calls directly and twice through varve: requests and results must be equal, and stored history is fetched once. */
export async function checkSameThroughVarve (
  t: Test,
  sandbox: Sandbox,
  calls: readonly Call[],
  outcome: 'value' | 'error',
  { direct, first, second }: Readers
): Promise<void> {
  for (const call of calls) {
    const truth = await direct.run(call)
    t.equal(truth.result.indexOf(`{"${outcome}":`), 0, `${call.title}: ${outcome}`)
    // Requires a request: a result from the client's memory would always be equal.
    t.ok(truth.sent.length > 0, `${call.title}: sends requests`)
    sandbox.requests.reset()
    t.same(await first.run(call), truth, `${call.title}: the first time`)
    const requestCount = sandbox.requests.countFor(call.storedAs ?? 'other')
    t.same(await second.run(call), truth, `${call.title}: the second time`)
    if (!isStoredCall(call)) continue
    t.ok(requestCount > 0, `${call.title}: goes upstream`)
    t.equal(sandbox.requests.countFor(call.storedAs), requestCount, `${call.title}: and not again`)
  }
}

/** True if varve stores the history that a call reads. */
function isStoredCall (call: Call): call is Call & { storedAs: EndpointName } {
  return call.storedAs !== undefined && (endpointNames as readonly string[]).includes(call.storedAs)
}
