import { accountContentAt, authenticationKey, hasAccount } from './account-resource.js'
import { u64Bytes } from './bcs.js'
import { balanceAt } from './balances.js'
import { addressParam, assetParam, u64Query } from './params.js'
import { accountNotFound } from './problem.js'
import { requestedFormat, pathParam, type RequestContext, requireVersion, successResponse } from './request-context.js'
import { type SandboxResponse } from './response.js'
import { type Account } from './schema/account.js'
import { nextSequenceAt } from './known-senders.js'

/** Tells the next sequence number of an account and the key that it is authenticated by. */
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

/** Tells how much of a coin or of a fungible asset an account has: a bare number, which a double may not hold. */
export function readBalance (context: RequestContext): SandboxResponse {
  const address = addressParam('address', pathParam(context, 0))
  const asset = assetParam('asset_type', pathParam(context, 1))
  const requestedVersion = u64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get account balance')
  const version = requireVersion(context.snapshot, requestedVersion)
  const balance = balanceAt(context.snapshot.ledger, address, asset, version)
  return successResponse(context, format, format === 'json' ? String(balance) : u64Bytes(balance))
}
