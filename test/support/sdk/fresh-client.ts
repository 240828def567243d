import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type ClientRequest } from 'node:http'
import { createRequire } from 'node:module'
import { type Test } from 'tap'
import { type Call, type ChainFixture } from './calls.js'
import { clientOf, type Sdk, callResult } from './call-result.js'

/** A client that has asked for nothing yet. */
export interface SdkReader {
  /** Makes a call, and tells what came of it and what was sent for it: methods and targets. */
  run(call: Call): Promise<{ told: string, sent: string[] }>
}

const require = createRequire(import.meta.url)

/** The client loaded anew, since it remembers some answers for minutes, whichever node they came from. */
export function freshSdk (): Sdk {
  for (const file of Object.keys(require.cache)) {
    if (file.includes('/@aptos-labs/ts-sdk/')) Reflect.deleteProperty(require.cache, file)
  }
  return require('@aptos-labs/ts-sdk') as Sdk
}

/** A fresh client in Node. */
export function readerInNode (t: Test, nodeUrl: string, ground: ChainFixture): SdkReader {
  // It says something of custom networks.
  t.capture(console, 'info')
  const sdk = freshSdk()
  const aptos = clientOf(sdk, nodeUrl)
  return {
    async run (call) {
      const sent: string[] = []
      const note = (message: unknown): void => {
        const { request } = message as { request: ClientRequest }
        sent.push(`${request.method} ${request.path}`)
      }
      // One call at a time, and varve asks in another way.
      subscribe('http.client.request.start', note)
      const told = await callResult(sdk, aptos, call, ground)
      unsubscribe('http.client.request.start', note)
      return { told, sent }
    }
  }
}
