import { once } from 'node:events'
import { type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { openListener } from '../../../src/tools/recording/open-listener.js'

t.test('closing drains requests in flight, accepts no new ones, and cuts those that take too long', async t => {
  const pending: ServerResponse[] = []
  const requests = new EventTarget()
  const open = await openListener({ host: '::1', port: 0 }, (request, response) => {
    if (request.url === '/at-once') response.end('ok')
    else pending.push(response)
    requests.dispatchEvent(new Event('request'))
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
    await once(requests, 'request')
    return { socket, text: () => text }
  }
  const idle = await connection('/at-once')
  await once(idle.socket, 'data')
  const [first, second] = [await connection('/waits'), await connection('/hangs')]
  const closed = open.close(500)
  const ends = [first, second, idle].map(async ({ socket }) => {
    await once(socket, 'close')
  })
  idle.socket.write('GET /late HTTP/1.1\r\nHost: x\r\n\r\n')
  await ends[2]
  t.notMatch(idle.text(), /HTTP[^]*HTTP/)
  await t.rejects(once(connect(port, '::1'), 'connect'), { code: 'ECONNREFUSED' })
  pending[0]?.end('long '.repeat(100_000))
  await closed
  await Promise.all(ends)
  t.match(first.text(), /long $/)
  t.ok(first.text().length > 500_000)
  t.equal(second.text(), '')
  t.equal(pending.length, 2)
  await open.close(0)
})
