import { u64Bytes } from './bcs.js'
import { digestBytes } from './digests.js'
import { requestedFormat, type RequestContext, successResponse } from './request-context.js'
import { makeResponse, type SandboxResponse } from './make-response.js'

const chainNames: Readonly<Record<number, string>> = { 1: 'mainnet', 2: 'testnet', 3: 'devnet', 4: 'testing' }
// The official client reserves two million units of gas, for which 100,000,000 are enough at each but the last.
const gasPriceBuckets = [10, 15, 20, 30, 40, 100]

/** Reads the index: the position and the release of the node. */
export function readIndex (context: RequestContext): SandboxResponse {
  const format = requestedFormat(context, 'Get ledger info')
  const { position, ledger } = context.snapshot
  if (format === 'bcs') {
    return successResponse(
      context,
      format,
      Buffer.concat([
        Buffer.from([position.chainId]),
        u64Bytes(position.epoch),
        u64Bytes(position.version),
        u64Bytes(position.oldestVersion),
        u64Bytes(position.timestampUsec),
        Buffer.from([1]),
        u64Bytes(position.oldestBlockHeight),
        u64Bytes(position.blockHeight)
      ])
    )
  }
  return successResponse(
    context,
    format,
    JSON.stringify(
      {
        chain_id: position.chainId,
        epoch: String(position.epoch),
        ledger_version: String(position.version),
        oldest_ledger_version: String(position.oldestVersion),
        ledger_timestamp: String(position.timestampUsec),
        node_role: 'full_node',
        oldest_block_height: String(position.oldestBlockHeight),
        block_height: String(position.blockHeight),
        git_hash: ledger.release,
        encryption_key: null
      }
    )
  )
}

/** Reads the configuration of the node; the response has no position, and the order of its members varies. */
export function readInfo (context: RequestContext): SandboxResponse {
  if (context.settings.infoIsIndex) return readIndex(context)
  const { chainId } = context.snapshot.position
  const members = Object.entries(
    {
      chain_id: chainNames[chainId] ?? String(chainId),
      node_type: 'PublicFullnode',
      bootstrapping_mode: 'DownloadLatestStates',
      continuous_syncing_mode: 'ExecuteTransactionsOrApplyOutputs',
      new_storage_format: true,
      internal_indexer_config: {
        enable_transaction: true,
        enable_event: true,
        enable_event_v2_translation: false,
        event_v2_translation_ignores_below_version: 0,
        enable_statekeys: true,
        batch_size: 10_000,
        runtime_threads: 4
      },
      fullnode_network_peer_id_Public: digestBytes(context.snapshot.ledger.seed, 'peer').toString('hex')
    }
  )
  const firstMember = context.requestIndex % members.length
  return makeResponse(
    200,
    'json',
    JSON.stringify(Object.fromEntries([...members.slice(firstMember), ...members.slice(0, firstMember)]))
  )
}

/** Reads the gas estimate, which changes every 40 blocks. */
export function readGasPrice (context: RequestContext): SandboxResponse {
  const format = requestedFormat(context, 'Estimate gas price')
  const { ledger, position } = context.snapshot
  const bucketIndex = digestBytes(ledger.seed, 'gas', position.blockHeight / 40n).readUInt8() %
    (gasPriceBuckets.length - 1)
  const regular = Number(gasPriceBuckets[bucketIndex])
  if (format === 'bcs') return successResponse(context, format, u64Bytes(BigInt(regular)))
  return successResponse(
    context,
    format,
    JSON.stringify(
      {
        deprioritized_gas_estimate: Math.min(regular, 10),
        gas_estimate: regular,
        prioritized_gas_estimate: Number(gasPriceBuckets[bucketIndex + 1])
      }
    )
  )
}

/** Reports that the node is healthy. */
export function readHealth (context: RequestContext): SandboxResponse {
  return successResponse(context, 'json', JSON.stringify({ message: 'aptos-node:ok' }))
}

/** Stands for the document that nodes serve about themselves, which varve forwards; sends no position. */
export function readSpec (): SandboxResponse {
  return makeResponse(200, 'framework', JSON.stringify({ openapi: '3.0.2', info: { title: 'sandbox' }, paths: {} }))
}
