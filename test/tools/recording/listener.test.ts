import { once } from 'node:events'
import { type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { openListener } from '../../../src/tools/recording/open-listener.js'

t.test('closing drains requests in flight, accepts no new ones, and cuts those that take too long', async t => {
  const waiting: ServerResponse[] = []
  const asked = new EventTarget()
  const open = await openListener({ host: '::1', port: 0 }, (request, response) => {
    if (request.url === '/at-once') response.end('ok')
    else waiting.push(response)
    asked.dispatchEvent(new Event('asked'))
  })
  t.match(open.url, /^http:\/\/\[::1\]:\d+$/)
  const port = Number(new URL(open.url).port)
  const connection = async (target: string): Promise<{ socket: ReturnType<typeof connect>, text: () => string }> => {
    const socket = connect(port, '::1')
    let text = ''
    socket.on('data', chunk => {
      text += String(chunk)
    })
    socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)
    await once(asked, 'asked')
    return { socket, text: () => text }
  }
  const kept = await connection('/at-once')
  await once(kept.socket, 'data')
  const [first, second] = [await connection('/waits'), await connection('/hangs')]
  const closed = open.close(500)
  const ends = [first, second, kept].map(async ({ socket }) => {
    await once(socket, 'close')
  })
  kept.socket.write('GET /late HTTP/1.1\r\nHost: x\r\n\r\n')
  await ends[2]
  t.notMatch(kept.text(), /HTTP[^]*HTTP/)
  await t.rejects(once(connect(port, '::1'), 'connect'), { code: 'ECONNREFUSED' })
  waiting[0]?.end('long '.repeat(100_000))
  await closed
  await Promise.all(ends)
  t.match(first.text(), /long $/)
  t.ok(first.text().length > 500_000)
  t.equal(second.text(), '')
  t.equal(waiting.length, 2)
  await open.close(0)
})
