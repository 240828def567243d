import type { Aptos, ClientConfig } from '@aptos-labs/ts-sdk'
import type { Call, ChainFixture } from './calls.js'

/** The client as it comes. */
export type Sdk = typeof import('@aptos-labs/ts-sdk')

/** A client of a node, or of what stands for one. */
export function clientOf (
  { Aptos, AptosConfig, Network }: Sdk,
  nodeUrl: string,
  clientConfig: ClientConfig = {}
): Aptos {
  return new Aptos(new AptosConfig({ network: Network.CUSTOM, fullnode: `${nodeUrl}/v1`, clientConfig }))
}

/** What a call gives or fails with, as one text: to the letter the same where a caller could see no difference. */
export async function callResult (sdk: Sdk, aptos: Aptos, { make }: Call, ground: ChainFixture): Promise<string> {
  try {
    return printed({ value: await make(aptos, ground) })
  } catch (error) {
    // The address alone may differ.
    return printed({ error: errorResult(sdk, error as Error) }).replaceAll(String(aptos.config.fullnode), 'NODE')
  }
}

function errorResult (sdk: Sdk, error: Error): object {
  const { name, message } = error
  if (!(error instanceof sdk.AptosApiError)) return { name, message }
  const { status, statusText, url, data } = error
  return { class: 'AptosApiError', name, message, status, statusText, url, data: data as unknown }
}

// What JSON has no word for is told apart from what it has one for.
function printed (value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member === 'bigint') return { bigint: String(member) }
    return member === undefined ? { undefined: true } : member
  })
}
