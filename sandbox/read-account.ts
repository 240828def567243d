import { defaultAccount } from './account-resource.js'
import { u64Bytes } from './bcs.js'
import { balanceAt } from './balances.js'
import { readAddressParam, readAssetParam, readU64Query } from './params.js'
import { accountNotFound } from './problem.js'
import { requestedFormat, pathParam, type RequestContext, requireVersion, successResponse } from './request-context.js'
import { type SandboxResponse } from './make-response.js'
import { resourceAt } from './state.js'
import { trustedStructTag } from './type-tag.js'

const accountTag = trustedStructTag('0x1::account::Account')

/** Reads the next sequence number and the authentication key of an account. */
export function readAccount (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get account')
  const version = requireVersion(context.snapshot, requestedVersion)
  const { ledger } = context.snapshot
  const found = resourceAt(ledger, address, accountTag, version)?.value
  if (!context.settings.statelessAccounts && found === undefined) throw accountNotFound(address, version)
  const account = found ?? defaultAccount(ledger, address, version)
  if (format === 'bcs') return successResponse(context, format, account.bytes)
  const members = JSON.parse(account.json) as Record<string, unknown>
  return successResponse(context, format, JSON.stringify(members, ['sequence_number', 'authentication_key']))
}

/** Reads the balance of a coin or a fungible asset: a bare JSON number that can exceed the precision of a double. */
export function readBalance (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const asset = readAssetParam('asset_type', pathParam(context, 1))
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get account balance')
  const version = requireVersion(context.snapshot, requestedVersion)
  const balance = balanceAt(context.snapshot.ledger, address, asset, version)
  return successResponse(context, format, format === 'json' ? String(balance) : u64Bytes(balance))
}
