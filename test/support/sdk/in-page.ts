import { type ChainFixture, type Sdk, callOf, callResult, clientOf } from './calls.js'

// Globals of the page, where the client was loaded before.
const page = globalThis as unknown as { sdk: Sdk, runCall: unknown }
const clients = new Map<string, ReturnType<typeof clientOf>>()

/** Runs a call by its title. */
page.runCall = async (upstreamUrl: string, title: string, ground: ChainFixture): Promise<string> => {
  const aptos = clients.get(upstreamUrl) ?? clientOf(page.sdk, upstreamUrl)
  clients.set(upstreamUrl, aptos)
  return await callResult(page.sdk, aptos, callOf(title), ground)
}
