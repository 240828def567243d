import type { Aptos, ClientConfig } from '@aptos-labs/ts-sdk'
import type { Call, ChainFixture } from './calls.js'

/** The official client. */
export type Sdk = typeof import('@aptos-labs/ts-sdk')

/** Returns a client of a node, or of varve. */
export function clientOf (
  { Aptos, AptosConfig, Network }: Sdk,
  upstreamUrl: string,
  clientConfig: ClientConfig = {}
): Aptos {
  return new Aptos(new AptosConfig({ network: Network.CUSTOM, fullnode: `${upstreamUrl}/v1`, clientConfig }))
}

/** Returns the result or error of a call as text: equal if a caller could see no difference. */
export async function callResult (sdk: Sdk, aptos: Aptos, { make }: Call, ground: ChainFixture): Promise<string> {
  try {
    return printed({ value: await make(aptos, ground) })
  } catch (error) {
    // Replaces the address, which alone may differ.
    return printed({ error: errorResult(sdk, error as Error) }).replaceAll(String(aptos.config.fullnode), 'NODE')
  }
}

function errorResult (sdk: Sdk, error: Error): object {
  const { name, message } = error
  if (!(error instanceof sdk.AptosApiError)) return { name, message }
  const { status, statusText, url, data } = error
  return { class: 'AptosApiError', name, message, status, statusText, url, data: data as unknown }
}

// Prints values that JSON lacks in a distinct form.
function printed (value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member === 'bigint') return { bigint: String(member) }
    return member === undefined ? { undefined: true } : member
  })
}
