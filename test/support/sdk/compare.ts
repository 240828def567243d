import { type Test } from 'tap'
import { endpointNames } from '../../../src/api/endpoints.js'
import { transactionHash } from '../../../sandbox/kinds/committed.js'
import { type EndpointName, type Sandbox } from '#sandbox'
import { pendingTransactions } from '../../../sandbox/transactions.js'
import { type Call, type ChainFixture } from './calls.js'
import { type SdkReader } from './fresh-client.js'

/** What of a sandbox's chain the calls ask for. */
export function chainFixtureOf ({ ledger }: Sandbox): ChainFixture {
  const block = ledger.block(446)
  const { version, blockHeight } = ledger.oldest
  const [waiting] = pendingTransactions(ledger, ledger.height)
  return {
    version: String(block.firstVersion + 2n),
    // Of a block that is kept already no node is asked.
    height: String(block.height + 1n),
    prunedVersion: String(version - 1n),
    prunedHeight: String(blockHeight - 1n),
    futureVersion: String(ledger.head.version + 1_000_000n),
    hash: transactionHash(ledger, block.firstVersion + 1n),
    waitingHash: String(waiting?.hash)
  }
}

/**
 * Three clients that have each asked for nothing yet: of the node itself, and two one after the other through varve.
 */
export interface Readers {
  readonly direct: SdkReader
  readonly first: SdkReader
  readonly second: SdkReader
}

/**
 * Makes every call of the node and twice through varve: each time what is sent and what comes of it is the same, and
 * the second time no node is asked for history.
 */
export async function checkSameThroughVarve (
  t: Test,
  sandbox: Sandbox,
  calls: readonly Call[],
  outcome: 'value' | 'error',
  { direct, first, second }: Readers
): Promise<void> {
  for (const call of calls) {
    const truth = await direct.run(call)
    t.equal(truth.told.indexOf(`{"${outcome}":`), 0, `${call.title}: ${outcome}`)
    // What a client remembers would be the same whatever varve said.
    t.ok(truth.sent.length > 0, `${call.title}: is asked for`)
    sandbox.requests.reset()
    t.same(await first.run(call), truth, `${call.title}: the first time`)
    const asked = sandbox.requests.countFor(call.storedAs ?? 'other')
    t.same(await second.run(call), truth, `${call.title}: the second time`)
    if (!isStoredCall(call)) continue
    t.ok(asked > 0, `${call.title}: a node is asked`)
    t.equal(sandbox.requests.countFor(call.storedAs), asked, `${call.title}: and never again`)
  }
}

/** Whether varve has the endpoint that a call reads the history of. */
function isStoredCall (call: Call): call is Call & { storedAs: EndpointName } {
  return call.storedAs !== undefined && (endpointNames as readonly string[]).includes(call.storedAs)
}
