import { once } from 'node:events'
import t from 'tap'
import { within } from '../src/within.js'
import { echoing, standStill } from './support/standing-still.js'

t.test('what a promise brings in time is had, and nothing where it takes longer', async t => {
  t.equal(await within(1000, Promise.resolve('brought')), 'brought')
  t.equal(await within(1, new Promise(() => {})), undefined)
  await t.rejects(within(1000, Promise.reject(new Error('no'))), { message: 'no' })
})

t.test('an answer that came while the process stood still is not late', async t => {
  const socket = await echoing(t)
  for (let times = 0; times < 5; times++) {
    const had = within(20, once(socket, 'data').then(String))
    socket.write('asked')
    standStill(300)
    t.equal(await had, 'asked')
  }
})
