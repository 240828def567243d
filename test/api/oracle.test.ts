import fc from 'fast-check'
import t from 'tap'
import { mediaTypes } from '../../src/api/accept.js'
import { keysOf, targetOf, type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { ErrorResponse } from '../../src/api/error-response.js'
import { startSandbox } from '#sandbox'
import { type TestResponse, sendRequest } from '../support/client.js'
import { type RequestVariant, isRejectedRequest, mayDiffer, requestVariant } from '../support/request-variants.js'
import { checkAsync, seedTitle } from '../support/properties.js'

// The sandbox parses requests independently, so it judges how varve reads them; its ledger stays fixed meanwhile, and
// blocks are truncated, since the largest take a second each.
const sandbox = await startSandbox({ blockMs: 0, blockTransactionsMax: 50 })
t.teardown(async () => {
  await sandbox.close()
})

function readOf ({ method, target, accept, contentType, body }: RequestVariant): Read | ErrorResponse | undefined {
  try {
    const match = matchEndpoint(target, method)
    return match &&
      readRequest(match, { method, accept, contentType, body: Buffer.from(body ?? '') })
  } catch (error) {
    if (error instanceof ErrorResponse) return error
    throw error
  }
}

async function direct ({ method, target, accept, contentType, body }: RequestVariant): Promise<TestResponse> {
  const headers = {
    ...(accept !== undefined && { accept }),
    ...(contentType !== undefined && { 'content-type': contentType })
  }
  return await sendRequest(sandbox.url, target, { method, headers, ...(body !== undefined && { body }) })
}

async function canonical (read: Read): Promise<TestResponse> {
  return await direct({
    method: read.endpoint.method,
    target: targetOf(read),
    accept: mediaTypes[read.accept],
    contentType: read.body?.type,
    body: read.body && String(read.body.sent)
  })
}

const meaningOf = (
  { status, headers, body }: TestResponse
): unknown => [status, body, headers['content-type'], headers['x-aptos-cursor']]

const primitives = new Set(
  ['', ...'bool u8 u16 u32 u64 u128 u256 i8 i16 i32 i64 i128 i256 address signer vector'.split(' ')]
)

function namesUnknownType ({ body, path }: Read): boolean {
  const { key_type: keyType = '', value_type: valueType = '' } = JSON.parse(String(body?.sent ?? '{}')) as Record<
    string,
    string
  >
  const handle = /\/events\/([^/]+)\//.exec(path)?.[1] ?? ''
  const names = `${keyType}<${valueType}<${decodeURIComponent(handle)}`.replace(/0x[0-9a-f]+::[\w$]+::[\w$]+/g, '')
    .split(/[<>,]/)
  return names.some(name => !primitives.has(name))
}

t.test(`the node reads what varve reads, alike, and rejects what varve rejects (${seedTitle})`, async () => {
  await checkAsync(
    fc.asyncProperty(requestVariant, async variant => {
      const read = readOf(variant)
      const got = await direct(variant)
      if (read === undefined) {
        return isRejectedRequest(got) ||
          ['index', 'healthy', 'other'].includes(sandbox.requests.latest.at(-1)?.endpoint ?? '')
      }
      if (read instanceof ErrorResponse) {
        return mayDiffer(variant, got)
      }
      const same = await canonical(read)
      // An error may quote the text of the request; it is never stored.
      if (
        isRejectedRequest(got)
          ? got.status !== same.status
          : JSON.stringify(meaningOf(got)) !== JSON.stringify(meaningOf(same))
      ) return false
      // Only the node knows if a cursor, an unknown type name, a raw key or a view's arguments are usable.
      return !isRejectedRequest(got) || targetOf(read).includes('start=') ||
        ['raw_key', 'state_key', 'view'].includes(read.endpoint.takesBody ?? '') || namesUnknownType(read)
    }),
    250
  )
})

t.test(`two requests with different node responses never share a key (${seedTitle})`, async () => {
  const responses = new Map<string, { variant: RequestVariant, meaning: string }>()
  await checkAsync(
    fc.asyncProperty(requestVariant, async variant => {
      const read = readOf(variant)
      if (read === undefined || read instanceof ErrorResponse) return
      const got = await direct(variant)
      const keys = keysOf(read, { name: 'space' })
      const key = got.status === 200 ? keys.value : keys.text
      const meaning = JSON.stringify(meaningOf(got))
      const before = responses.get(key)
      if (before !== undefined && before.meaning !== meaning) {
        throw new Error(`${JSON.stringify(before.variant)} and ${JSON.stringify(variant)} share ${key}`)
      }
      responses.set(key, { variant, meaning })
    }),
    200
  )
})
