import { accountContentAt, authenticationKey, hasAccount } from './account-resource.js'
import { u64Bytes } from './bcs.js'
import { balanceAt } from './balances.js'
import { addressParam, assetParam, u64Query } from './params.js'
import { accountNotFound } from './problem.js'
import { requestedFormat, pathParam, type RequestContext, requireVersion, successResponse } from './request-context.js'
import { type SandboxResponse } from './response.js'
import { type Account } from './schema/account.js'
import { nextSequenceAt } from './known-senders.js'

/** Reads the next sequence number and the authentication key of an account. */
export function readAccount (context: RequestContext): SandboxResponse {
  const address = addressParam('address', pathParam(context, 0))
  const requestedVersion = u64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get account')
  const version = requireVersion(context.snapshot, requestedVersion)
  if (!context.settings.statelessAccounts && !hasAccount(address)) throw accountNotFound(address, version)
  const { ledger } = context.snapshot
  if (format === 'bcs') return successResponse(context, format, accountContentAt(ledger, address, version).value.bytes)
  return successResponse(
    context,
    format,
    JSON.stringify(
      {
        sequence_number: String(nextSequenceAt(ledger, address, version)),
        authentication_key: `0x${authenticationKey(ledger, address).toString('hex')}`
      } satisfies Account
    )
  )
}

/** Reads the balance of a coin or a fungible asset: a bare JSON number that can exceed the precision of a double. */
export function readBalance (context: RequestContext): SandboxResponse {
  const address = addressParam('address', pathParam(context, 0))
  const asset = assetParam('asset_type', pathParam(context, 1))
  const requestedVersion = u64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get account balance')
  const version = requireVersion(context.snapshot, requestedVersion)
  const balance = balanceAt(context.snapshot.ledger, address, asset, version)
  return successResponse(context, format, format === 'json' ? String(balance) : u64Bytes(balance))
}
