import { callOf, type Ground } from './calls.js'
import { clientOf, type Sdk, toldBy } from './told.js'

// What a page is: the client was loaded into it before.
const page = globalThis as unknown as { sdk: Sdk, tell: unknown }
const clients = new Map<string, ReturnType<typeof clientOf>>()

/** Makes a call by its title. */
page.tell = async (nodeUrl: string, title: string, ground: Ground): Promise<string> => {
  const aptos = clients.get(nodeUrl) ?? clientOf(page.sdk, nodeUrl)
  clients.set(nodeUrl, aptos)
  return await toldBy(page.sdk, aptos, callOf(title), ground)
}
