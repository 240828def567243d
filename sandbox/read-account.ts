import { accountHeld, authenticationKey, hasAccount } from './account-resource.js'
import { u64Bytes } from './bcs.js'
import { balanceAt } from './balances.js'
import { addressParam, assetParam, u64Query } from './params.js'
import { accountNotFound } from './problem.js'
import { formOf, paramOf, type Question, readableVersion, success } from './question.js'
import { type Reply } from './reply.js'
import { type Account } from './schema/account.js'
import { sequenceAt } from './senders.js'

/** Tells the next sequence number of an account and the key that it is authenticated by. */
export function readAccount (question: Question): Reply {
  const address = addressParam('address', paramOf(question, 0))
  const asked = u64Query(question.query, 'ledger_version')
  const form = formOf(question, 'Get account')
  const version = readableVersion(question.view, asked)
  if (!question.settings.statelessAccounts && !hasAccount(address)) throw accountNotFound(address, version)
  const { ledger } = question.view
  if (form === 'bcs') return success(question, form, accountHeld(ledger, address, version).value.bytes)
  return success(
    question,
    form,
    JSON.stringify(
      {
        sequence_number: String(sequenceAt(ledger, address, version)),
        authentication_key: `0x${authenticationKey(ledger, address).toString('hex')}`
      } satisfies Account
    )
  )
}

/** Tells how much of a coin or of a fungible asset an account has: a bare number, which a double may not hold. */
export function readBalance (question: Question): Reply {
  const address = addressParam('address', paramOf(question, 0))
  const asset = assetParam('asset_type', paramOf(question, 1))
  const asked = u64Query(question.query, 'ledger_version')
  const form = formOf(question, 'Get account balance')
  const version = readableVersion(question.view, asked)
  const balance = balanceAt(question.view.ledger, address, asset, version)
  return success(question, form, form === 'json' ? String(balance) : u64Bytes(balance))
}
