import { u64Bytes } from './bcs.js'
import { digest } from './digest.js'
import { formOf, type Question, success } from './question.js'
import { reply, type Reply } from './reply.js'
import { type GasEstimate, type Health, type Index, type NodeInfo } from './schema/node.js'

const chainNames: Readonly<Record<number, string>> = { 1: 'mainnet', 2: 'testnet', 3: 'devnet', 4: 'testing' }
const buckets = [100, 150, 300, 500, 1_000, 3_000]

/** The index: where the node stands and which release it runs. */
export function readIndex (question: Question): Reply {
  const form = formOf(question, 'Get ledger info')
  const { position, ledger } = question.view
  if (form === 'bcs') {
    return success(
      question,
      form,
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
  return success(
    question,
    form,
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
      } satisfies Index
    )
  )
}

/** What the node is configured as: without a position, and in another order of members each time. */
export function readInfo (question: Question): Reply {
  if (question.settings.infoIsIndex) return readIndex(question)
  const { chainId } = question.view.position
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
      fullnode_network_peer_id_Public: digest(question.view.ledger.seed, 'peer').toString('hex')
    } satisfies NodeInfo
  )
  const turn = question.serial % members.length
  return reply(200, 'json', JSON.stringify(Object.fromEntries([...members.slice(turn), ...members.slice(0, turn)])))
}

/** What gas costs: it changes every forty blocks. */
export function readGasPrice (question: Question): Reply {
  const form = formOf(question, 'Estimate gas price')
  const { ledger, position } = question.view
  const busy = digest(ledger.seed, 'gas', position.blockHeight / 40n).readUInt8() % (buckets.length - 1)
  const regular = Number(buckets[busy])
  if (form === 'bcs') return success(question, form, u64Bytes(BigInt(regular)))
  return success(
    question,
    form,
    JSON.stringify(
      {
        deprioritized_gas_estimate: Math.min(regular, 100),
        gas_estimate: regular,
        prioritized_gas_estimate: Number(buckets[busy + 1])
      } satisfies GasEstimate
    )
  )
}

/** That the node is well. */
export function readHealth (question: Question): Reply {
  return success(question, 'json', JSON.stringify({ message: 'aptos-node:ok' } satisfies Health))
}
