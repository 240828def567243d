import { type IncomingHttpHeaders, request } from 'node:http'

/** Sends a GET to a unix socket on a connection of its own. */
export async function requestSocket (
  socketPath: string,
  path: string,
  headers: Record<string, string> = {}
): Promise<{ status: number, headers: IncomingHttpHeaders }> {
  return await new Promise((resolve, reject) => {
    request({ socketPath, path, headers, agent: false }, response => {
      response.resume().on('end', () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers })
      })
    }).on('error', reject).end()
  })
}
