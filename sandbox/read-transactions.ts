import { accountExists } from './account-exists.js'
import { foundByHash } from './by-hash.js'
import { sequenceBytes } from './bcs.js'
import { addressParam, hashParam, limitQuery, u64Param, u64Query } from './params.js'
import { invalidInput, transactionNotFound, versionPruned } from './problem.js'
import { formOf, pageSize, paramOf, type Question, success, type View } from './question.js'
import { type Reply } from './reply.js'
import { sentVersion, senders, sequenceAt } from './senders.js'
import { transactionBytes, transactionRecord } from './transactions.js'

/** Fetches the transaction of a version. */
export function readTransactionByVersion (question: Question): Reply {
  const version = u64Param('txn_version', paramOf(question, 0))
  const form = formOf(question, 'Get transactions by version')
  const { position } = question.view
  if (version > position.version) throw transactionNotFound(`Ledger version(${version})`)
  if (version < position.oldestVersion) throw versionPruned(version)
  return success(question, form, form === 'json' ? json(question.view, version) : onChain(question.view, version))
}

/** Fetches a transaction by its hash, which may be one that still waits to be committed. */
export function readTransactionByHash (question: Question): Reply {
  const hash = hashParam('txn_hash', paramOf(question, 0))
  const form = formOf(question, 'Get transactions by hash')
  const found = foundByHash(question.view, hash)
  if (found === undefined) throw transactionNotFound(`Transaction hash(${hash})`)
  if (typeof found === 'bigint') {
    return success(question, form, form === 'json' ? json(question.view, found) : onChain(question.view, found))
  }
  return success(question, form, form === 'json' ? JSON.stringify(found) : Buffer.from(`01${hash.slice(2)}`, 'hex'))
}

/** Whether the transaction of a hash still waits, so that it is worth waiting with it. */
export function isWaiting (view: View, segment: string): boolean {
  try {
    return typeof foundByHash(view, hashParam('txn_hash', segment)) === 'object'
  } catch {
    return false
  }
}

/** Lists transactions from a version on: the last ones where none is given. */
export function readTransactions (question: Question): Reply {
  const asked = u64Query(question.query, 'start')
  const limit = limitQuery(question.query)
  const form = formOf(question, 'Get transactions')
  const { transactionsDefault, transactionsMax } = question.settings
  const size = BigInt(pageSize(limit, transactionsDefault, transactionsMax))
  const { version: head, oldestVersion } = question.view.position
  const start = asked ?? (head < size ? 0n : head - size + 1n)
  if (start > head) {
    throw invalidInput(`Given start value (${start}) is higher than the current ledger version, it must be < ${head}`)
  }
  if (start < oldestVersion) throw versionPruned(start)
  return listed(question, form, versionsFrom(start, head < start + size ? head : start + size - 1n))
}

/** Lists the transactions that an account has sent, from a sequence number on: the last ones where none is given. */
export function readAccountTransactions (question: Question): Reply {
  const address = addressParam('address', paramOf(question, 0))
  const asked = u64Query(question.query, 'start')
  const limit = limitQuery(question.query)
  const form = formOf(question, 'Get account transactions')
  const { view: { ledger, position }, settings } = question
  accountExists(question, address, position.version)
  const size = BigInt(pageSize(limit, settings.transactionsDefault, settings.transactionsMax))
  const count = senders.includes(address) ? sequenceAt(ledger, address, position.version) : 0n
  const start = asked ?? (count < size ? 0n : count - size)
  const sequences = versionsFrom(start, (count < start + size ? count : start + size) - 1n)
  // Those that were pruned are left out without a word.
  return listed(
    question,
    form,
    sequences.map(sequence => sentVersion(ledger, address, sequence)).filter(version =>
      version >= position.oldestVersion
    )
  )
}

function listed (question: Question, form: 'json' | 'bcs', versions: readonly bigint[]): Reply {
  const { view } = question
  return success(
    question,
    form,
    form === 'json'
      ? `[${versions.map(version => json(view, version)).join(',')}]`
      : sequenceBytes(versions.map(version => transactionBytes(view.ledger, version)))
  )
}

function versionsFrom (first: bigint, last: bigint): bigint[] {
  return last < first ? [] : Array.from({ length: Number(last - first) + 1 }, (_, index) => first + BigInt(index))
}

function json ({ ledger }: View, version: bigint): string {
  return JSON.stringify(transactionRecord(ledger, ledger.blockOf(version), version))
}

// One transaction in BCS says first whether it is committed or waits.
function onChain ({ ledger }: View, version: bigint): Buffer {
  return Buffer.concat([Buffer.from([0]), transactionBytes(ledger, version)])
}
