import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type ClientRequest } from 'node:http'
import { createRequire } from 'node:module'
import { type Test } from 'tap'
import { endpointNames } from '../../../src/api/endpoints.js'
import { transactionHash } from '../../../sandbox/kinds/outcome.js'
import { pendingTransactions } from '../../../sandbox/transactions.js'
import { type Call, type ChainFixture, type Sdk, callResult, clientOf } from './calls.js'
import { type EndpointName, type Sandbox } from '#sandbox'

/** A client without memory. */
export interface SdkReader {
  /** Runs a call; returns its result and the sent methods and targets. */
  run(call: Call): Promise<{ result: string, sent: string[] }>
}

const require = createRequire(import.meta.url)
// varve reads these itself, to prove a chain.
const proofEndpoints: ReadonlySet<EndpointName> = new Set(['block_by_height', 'transaction_by_version'])

/** Loads the client again, because it caches some responses for minutes, whatever the node. */
export function freshSdk (): Sdk {
  for (const file of Object.keys(require.cache)) {
    if (file.includes('/@aptos-labs/ts-sdk/')) Reflect.deleteProperty(require.cache, file)
  }
  return require('@aptos-labs/ts-sdk') as Sdk
}

/** Creates a client without memory in Node.js. */
export function readerInNode (t: Test, upstreamUrl: string, ground: ChainFixture): SdkReader {
  // Hides the client's notice on custom networks.
  t.capture(console, 'info')
  const sdk = freshSdk()
  const aptos = clientOf(sdk, upstreamUrl)
  return {
    async run (call) {
      const sent: string[] = []
      const note = (message: unknown): void => {
        const { request } = message as { request: ClientRequest }
        sent.push(`${request.method} ${request.path}`)
      }
      // Records requests of one call at a time; varve's own use another client.
      subscribe('http.client.request.start', note)
      const result = await callResult(sdk, aptos, call, ground)
      unsubscribe('http.client.request.start', note)
      return { result, sent }
    }
  }
}

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
    const countFetches = (): number =>
      sandbox.requests.latest.filter(({ endpoint, method, url }) =>
        endpoint === call.storedAs && (!proofEndpoints.has(endpoint) || truth.sent.includes(`${method} ${url}`))
      ).length
    t.same(await first.run(call), truth, `${call.title}: the first time`)
    const fetchCount = countFetches()
    t.same(await second.run(call), truth, `${call.title}: the second time`)
    if (!isStoredCall(call)) continue
    t.ok(fetchCount > 0, `${call.title}: goes upstream`)
    t.equal(countFetches(), fetchCount, `${call.title}: and not again`)
  }
}

/** True if varve stores the history that a call reads. */
function isStoredCall (call: Call): call is Call & { storedAs: EndpointName } {
  return call.storedAs !== undefined && (endpointNames as readonly string[]).includes(call.storedAs)
}
