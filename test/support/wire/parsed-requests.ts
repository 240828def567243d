import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type IncomingMessage } from 'node:http'
import { type Test } from 'tap'

/** Counts the requests that Node parses in this process, by the URL of the server that they reach. */
export function countParsedRequests (t: Test): (url: string) => number {
  const counts = new Map<number | undefined, number>()
  const count = (message: unknown): void => {
    const { request: { socket: { localPort } } } = message as { readonly request: IncomingMessage }
    counts.set(localPort, (counts.get(localPort) ?? 0) + 1)
  }
  subscribe('http.server.request.start', count)
  t.teardown(() => {
    unsubscribe('http.server.request.start', count)
  })
  return url => counts.get(Number(new URL(url).port)) ?? 0
}
