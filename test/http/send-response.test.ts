import { createServer, type IncomingMessage } from 'node:http'
import t, { type Test } from 'tap'
import { printHeaders } from '../../src/cache/print-headers.js'
import { type ClientResponse } from '../../src/proxy/response-builder.js'
import { writeHead } from '../../src/http/send-response.js'
import { sendRaw } from '../support/raw.js'
import { listening } from '../support/stub-upstream.js'

const rawHeaders = [
  'X-NODE-CHAIN-ID',
  '4',
  'cache-status',
  'varve; hit; detail=memory',
  'content-type',
  'application/json',
  'content-length',
  '4',
  'etag',
  '"a"'
]
const cachedResponse: ClientResponse = {
  status: 200,
  rawHeaders,
  headerText: printHeaders(rawHeaders),
  body: Buffer.from('[42]')
}
const missing: ClientResponse = { ...cachedResponse, status: 404 }

// Writes preprinted headers under /printed, and lets Node.js print them elsewhere.
async function server (t: Test, clientResponse: ClientResponse, more: string[]): Promise<string> {
  const respond = (request: IncomingMessage, response: Parameters<typeof writeHead>[0]): void => {
    writeHead(
      response,
      request.url === '/printed' ? clientResponse : { ...clientResponse, headerText: undefined },
      more,
      'id-1'
    )
    response.end(request.method === 'HEAD' ? undefined : clientResponse.body)
  }
  return await listening(t, createServer({ keepAliveTimeout: 72_000 }, respond))
}

// Sorts headers, since Node.js writes its own ones last.
const sorted = (wire: string): string[] => wire.replace(/^date: .*$/gim, 'Date: now').split('\r\n').sort()

t.test('a preprinted header is on the wire what Node.js would print, for any request and additions', async t => {
  const requests = {
    'an ordinary one': 'GET TARGET HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
    'one that keeps the connection, then another':
      'GET TARGET HTTP/1.1\r\nhost: a\r\n\r\nGET TARGET HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
    'of an old client': 'GET TARGET HTTP/1.0\r\n\r\n',
    'of an old client that keeps its connection':
      'GET TARGET HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET TARGET HTTP/1.0\r\n\r\n',
    'for the head alone': 'HEAD TARGET HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
    'of a client that expects 100 Continue':
      'GET TARGET HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n'
  }
  const additions = [[], ['access-control-allow-origin', 'https://a.example', 'vary', 'Origin'], [
    'connection',
    'close'
  ]]
  for (const clientResponse of [cachedResponse, missing]) {
    for (const more of additions) {
      const url = await server(t, clientResponse, more)
      for (const [what, request] of Object.entries(requests)) {
        const ours = await sendRaw(url, request.replaceAll('TARGET', '/printed'))
        const byNode = await sendRaw(url, request.replaceAll('TARGET', '/by-node'))
        t.same(sorted(ours), sorted(byNode), `${clientResponse.status}, ${what}, with ${more.join(' ')}`)
        // Verifies by the order of headers that the preprinted text was used.
        if (what === 'an ordinary one') {
          t.ok(
            ours.indexOf('etag') < ours.indexOf('content-length') &&
              byNode.indexOf('etag') > byNode.indexOf('content-length')
          )
        }
        t.match(ours, /^HTTP\/1\.1 (?:200 OK|404 Not Found|100 Continue)\r\n/)
      }
    }
  }
})
