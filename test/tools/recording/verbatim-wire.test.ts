import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type Socket } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { sendRequest } from '../../support/client.js'
import { sendRaw } from '../../support/raw.js'
import { startRecorder, startReplay } from '../../support/recorder-and-replay.js'
import { listenRaw } from '../../support/stub-upstream.js'
import { until } from '../../support/until.js'

const json = '{"u64":"18446744073709551615","text":"\u2028 \u00e9"}'
const bcs = Buffer.from([0, 1, 2, 0xff, 0xfe, 0x80, 0])
const head = (lines: string): string => `HTTP/1.1 ${lines}\r\n`
const noSuch = `${head('404 Not Found')}content-length: 0\r\n\r\n`

/** Response of the node to each target, byte for byte, with the end of the connection where that ends it. */
const responses: Record<string, Buffer> = {
  '/v1/length': Buffer.from(
    `${head('200 OK')}Content-Type: application/json\r\nX-Twice: a\r\nX-Other: \xe9\r\nx-twice: b\r\nContent-Length: ${
      Buffer.byteLength(json)
    }\r\n\r\n`,
    'latin1'
  ),
  '/v1/chunked': Buffer.from(
    `${
      head('200 OK')
    }Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n`
  ),
  '/v1/close': Buffer.from(`${head('200 OK')}content-type: text/html\r\n\r\n<p>no end but the end`),
  '/v1/empty': Buffer.from(`${head('200 OK')}content-length: 0\r\n\r\n`),
  '/v1/nothing': Buffer.from(`${head('204 No Content')}x-a: b\r\n\r\n`),
  '/v1/same': Buffer.from(`${head('304 Not Modified')}etag: "x"\r\n\r\n`),
  '/v1/busy': Buffer.from(`${head('429 Too Many Requests')}retry-after: 1\r\ncontent-length: 4\r\n\r\nrest`),
  '/v1/odd': Buffer.from(`${head('799 Odd')}content-length: 2\r\n\r\nok`),
  '/v1/bcs': withBody('content-type: application/x-bcs', bcs),
  '/v1/gzip': withBody('content-encoding: gzip', gzipSync(json)),
  '/v1/br': withBody('content-encoding: br', brotliCompressSync(json)),
  '/v1/deflate': withBody('content-encoding: deflate', deflateSync(json)),
  '/v1/zstd': withBody('content-encoding: zstd', bcs)
}
responses['/v1/length'] = Buffer.concat([responses['/v1/length'] ?? bcs, Buffer.from(json)])

function withBody (line: string, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${head('200 OK')}${line}\r\ncontent-length: ${body.length}\r\n\r\n`), body])
}

/** Returns what belongs to the node's response and not to its connection. */
function parseResponse (text: string): { head: string[], body: string } {
  const [lines = '', ...rest] = text.split('\r\n\r\n')
  const body = rest.join('\r\n\r\n')
  // Without a body Transfer-Encoding belongs to the connection.
  const isChunked = body !== '' && /\r\ntransfer-encoding: chunked/i.test(lines)
  return {
    head: [
      ...lines.split('\r\n').slice(1).filter(line => !/^(?:connection|keep-alive|transfer-encoding):/i.test(line)),
      isChunked ? 'chunked' : '',
      lines.slice(0, 12)
    ],
    body: isChunked ? body.replace(/([0-9a-f]+)\r\n([^]*?)\r\n(?=[0-9a-f]+\r\n)|0\r\n\r\n$/g, '$2') : body
  }
}

const bare = (method: string, target: string, more = ''): string =>
  `${method} ${target} HTTP/1.1\r\nHost: x\r\n${more}Connection: close\r\n\r\n`

t.test('a response passes, is recorded and is replayed byte for byte', async t => {
  const url = await listenRaw(t, socket => {
    socket.on('error', () => {})
    socket.on('data', chunk => {
      const [, method, target = ''] = /^(\S+) (\S+)/.exec(chunk.toString('latin1')) ?? []
      const response = responses[target] ?? Buffer.from(noSuch)
      socket.write(method === 'HEAD' ? response.subarray(0, response.indexOf('\r\n\r\n') + 4) : response)
      if (target === '/v1/close' || /\r\nConnection: close/i.test(chunk.toString('latin1'))) socket.end()
    })
  })
  const recording = await startRecorder(t, url)
  const requests = ['GET', 'HEAD'].flatMap(method =>
    Object.keys(responses).map(target =>
      bare(
        method,
        target,
        target.endsWith('gzip')
          ? 'Accept-Encoding: gzip, br\r\n'
          : /(?:br|deflate)$/.test(target)
          ? 'Accept-Encoding: br, deflate\r\n'
          : ''
      )
    )
  )
  const direct = new Map<string, ReturnType<typeof parseResponse>>()
  for (const request of requests) {
    direct.set(request, parseResponse(await sendRaw(url, request)))
    t.same(parseResponse(await sendRaw(recording.url, request)), direct.get(request), request)
  }
  t.equal(await recording.stop(), 0)
  t.match(recording.exchanges().find(({ request }) => request.target === '/v1/bcs')?.response, {
    base64: bcs.toString('base64'),
    body: undefined
  })
  t.match(recording.exchanges().find(({ request }) => request.target === '/v1/length')?.response, {
    body: json,
    headers: [['Content-Type', 'application/json'], ['X-Twice', 'a'], ['X-Other', '\xe9'], ['x-twice', 'b']]
  })
  const replay = await startReplay(t, recording.file)
  for (const request of requests) {
    t.same(parseResponse(await sendRaw(replay.url, request)), direct.get(request), `again ${request}`)
  }
  t.equal(await replay.stop(), 0)
  t.match(
    replay.command.out(),
    new RegExp(
      `\n${requests.length} requests: ${requests.length} answered, 0 not in the recording; 1 of its ` +
        'responses was never requested\n$'
    )
  )
})

t.test('a truncated response is truncated for the client, and again in the replay', async t => {
  const broken: Record<string, (socket: Socket) => void> = {
    '/v1/length': socket => {
      socket.write(`${head('200 OK')}content-length: 100\r\n\r\nhalf`, () => socket.destroy())
    },
    '/v1/head': socket => {
      socket.write(`${head('200 OK')}content-length: 100\r\n\r\n`, () => socket.destroy())
    },
    '/v1/chunked': socket => {
      socket.write(`${head('200 OK')}transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n`, () => socket.destroy())
    },
    '/v1/none': socket => {
      socket.destroy()
    },
    '/v1/reset': socket => {
      socket.resetAndDestroy()
    },
    '/v1/garbage': socket => {
      socket.end('this is not HTTP')
    },
    '/v1': socket => {
      socket.write(noSuch)
    }
  }
  const url = await listenRaw(t, socket => {
    socket.on('error', () => {})
    socket.on('data', chunk => {
      broken[/ (\S+)/.exec(chunk.toString())?.[1] ?? '']?.(socket)
    })
  })
  const recording = await startRecorder(t, url)
  const expected = {
    '/v1/length': /\r\n\r\nhalf$/,
    '/v1/head': /content-length: 100\r\n\r\n$/,
    '/v1/chunked': /\r\n\r\n4\r\nhalf\r\n$/,
    '/v1/none': /^$/,
    '/v1/reset': /^$/,
    '/v1/garbage': /^$/
  }
  const rejects = { message: /hang up|ECONNRESET|aborted/ }
  const goesAsItWent = async (base: string): Promise<void> => {
    for (const [target, pattern] of Object.entries(expected)) {
      t.match(
        await sendRaw(base, bare('GET', target)).catch((error: Error) => error.message.replace(/.*ECONNRESET.*/, '')),
        pattern,
        target
      )
      await t.rejects(sendRequest(base, target), rejects, target)
    }
  }
  await goesAsItWent(recording.url)
  t.equal(await recording.stop(), 0)
  const pairs = recording.exchanges().filter((_, nth) => nth % 2 === 0)
  t.match(pairs.map(({ none, response }) => none ?? response?.broken), ['node', 'node', 'node', 'lost', 'lost', 'lost'])
  t.match(pairs.map(({ why }) => why), [undefined, undefined, undefined, 'ECONNRESET', 'ECONNRESET', /^HPE_/])
  t.match(recording.command.err(), /^ {2}upstream does not respond: GET \/v1\/none: ECONNRESET$/m)
  t.equal(recording.command.err().split('/v1/none').length, 2, 'it is reported once')
  const replay = await startReplay(t, recording.file)
  await goesAsItWent(replay.url)
})

t.test('a rejected connection and a silent node are recorded and replayed as such', async t => {
  const nowhere = await startRecorder(t, 'http://127.0.0.1:9')
  await t.rejects(sendRequest(nowhere.url, '/v1/info'), { code: 'ECONNRESET' })
  t.equal(await nowhere.stop(), 0)
  t.match(nowhere.exchanges(), [{ none: 'lost', why: 'ECONNREFUSED', response: undefined, head: undefined }])
  t.match(nowhere.command.err(), /upstream does not respond: GET \/v1\/info: ECONNREFUSED\n/)
  await t.rejects(sendRequest((await startReplay(t, nowhere.file)).url, '/v1/info'), { code: 'ECONNRESET' })

  let reached = 0
  const ended: Array<Promise<unknown>> = []
  const silent = await startRecorder(
    t,
    await listenRaw(t, socket => {
      socket.on('error', () => {})
      ended.push(once(socket, 'close'))
      socket.on('data', chunk => {
        if (String(chunk).includes('/v1/long')) socket.write(`${head('200 OK')}content-length: 100\r\n\r\nhalf`)
        reached++
      })
    })
  )
  const impatient = async (base: string, target: string, isEnough: () => boolean): Promise<string> => {
    const leaving = sendRaw(base, bare('GET', target), text => text.includes('half'))
    await until(isEnough, 'the upstream got three requests')
    return await (target === '/v1/long' ? leaving : Promise.race([
      leaving,
      new Promise<string>(resolve => {
        setTimeout(resolve, 200, 'nothing')
      })
    ]))
  }
  // The first request is the recorder's own, which it awaits as long as it runs.
  await until(() => reached === 1, 'the index is requested')
  t.match(await impatient(silent.url, '/v1/long', () => reached === 2), /half$/)
  await ended[1]
  await until(() => silent.exchanges().length === 1, '1 exchange is recorded')
  t.match(silent.exchanges()[0], { response: { body: 'half', broken: 'client' } })
  const leaver = new AbortController()
  await t.rejects(fetchUntil(silent.url, '/v1/silent', leaver, async () => {
    await until(() => reached === 3, 'the upstream got three requests')
  }))
  await ended[2]
  await until(() => silent.exchanges().length === 2, '2 exchanges are recorded')
  t.match(silent.exchanges()[1], { none: 'silent', response: undefined, why: undefined })
  t.equal(await silent.stop(), 0)
  t.match(
    readFileSync(silent.file, 'utf8').split('\n').at(-2),
    /"target":"\/v1",.*"none":"silent"/,
    'a request in flight at the end is cut and recorded'
  )
  const again = await startReplay(t, silent.file)
  t.equal(await impatient(again.url, '/v1/silent', () => true), 'nothing')
})

async function fetchUntil (
  base: string,
  target: string,
  leaver: AbortController,
  isEnough: () => Promise<void>
): Promise<unknown> {
  const pending = fetch(`${base}${target}`, { signal: leaver.signal })
  isEnough().then(() => {
    leaver.abort()
  }, () => {})
  return await pending
}

t.test('a request passes unchanged, except for connection headers and configured ones', async t => {
  const seen: string[] = []
  const url = await listenRaw(t, socket => {
    socket.on('error', () => {})
    socket.on('data', chunk => {
      seen.push(chunk.toString('latin1'))
      socket.write(`${head('200 OK')}content-length: 0\r\n\r\n`)
    })
  })
  const recording = await startRecorder(t, `${url}/prefix/`, [
    '--header',
    'x-added:  by us ',
    '--header',
    'Accept: text/plain'
  ])
  await until(() => seen.length === 1, 'the index is requested')
  await sendRaw(
    recording.url,
    Buffer.from(
      'POST http://any.example/v1/view?a=%2B1 HTTP/1.1\r\nHost: x\r\nX-Odd: \xe9\r\naccept: ' +
        'application/json\r\nx-odd: 2\r\nX-Hop: 1\r\nContent-Length: 4\r\nConnection: close, x-hop\r\n\r\nbody',
      'latin1'
    )
  )
  const host = new URL(url).host
  t.equal(
    seen[1],
    `POST /prefix/v1/view?a=%2B1 HTTP/1.1\r\nhost: ${host}\r\nX-Odd: \xe9\r\nx-odd: 2\r\nContent-Length: ` +
      '4\r\nx-added: by us\r\nAccept: text/plain\r\nConnection: keep-alive\r\n\r\nbody'
  )
  await sendRaw(
    recording.url,
    bare('POST', '/v1/chunks', 'Transfer-Encoding: chunked\r\n').replace('\r\n\r\n', '\r\n\r\n4\r\nbody\r\n0\r\n\r\n')
  )
  t.match(seen.slice(2).join(''), /\r\ntransfer-encoding: chunked\r\n[^]*\r\n\r\n4\r\nbody\r\n0\r\n\r\n$/)
  await sendRaw(recording.url, bare('POST', '/v1/none'))
  t.match(
    seen.at(-1),
    /^POST \/prefix\/v1\/none HTTP\/1.1\r\nhost: \S+\r\nx-added: by us\r\nAccept: text\/plain\r\ncontent-length: 0\r\n/
  )
  t.match(await sendRaw(recording.url, bare('OPTIONS', '*')), /^HTTP\/1.1 400 [^]*"error_code":"invalid_input"/)
  await recording.stop()
  t.match(recording.exchanges().map(({ request }) => [request.method, request.target, request.body]), [
    ['POST', '/v1/view?a=%2B1', 'body'],
    ['POST', '/v1/chunks', 'body'],
    ['POST', '/v1/none', undefined]
  ])
})
