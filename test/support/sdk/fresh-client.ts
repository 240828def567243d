import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type ClientRequest } from 'node:http'
import { createRequire } from 'node:module'
import { type Test } from 'tap'
import { type Call, type ChainFixture } from './calls.js'
import { clientOf, type Sdk, callResult } from './call-result.js'

/** A client without memory. */
export interface SdkReader {
  /** Runs a call; returns its result and the sent methods and targets. */
  run(call: Call): Promise<{ result: string, sent: string[] }>
}

const require = createRequire(import.meta.url)

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
