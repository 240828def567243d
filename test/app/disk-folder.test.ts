import { once } from 'node:events'
import { linkSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { pino } from 'pino'
import t from 'tap'
import { openFolder } from '../../src/app/disk-folder.js'
import { testFolder } from '../support/test-folder.js'

t.test('of two starts at once after a kill one gets the folder, and the other names it', async t => {
  const [path, log] = [testFolder(t), pino({ level: 'silent' })]
  const [lock, stale] = [join(path, 'lock'), join(testFolder(t), 'stale')]
  await (await openFolder(path, log)).close()
  const killed = createServer().listen(lock)
  await once(killed, 'listening')
  // A server that closes removes its own name alone.
  linkSync(lock, stale)
  await once(killed.close(), 'close')
  for (let at = 0; at < 100; at++) {
    rmSync(lock, { force: true })
    linkSync(stale, lock)
    const first = openFolder(path, log)
    for (let turns = 0; turns < at % 12; turns++) await turn()
    const started = await Promise.allSettled([first, openFolder(path, log)])
    const folders = started.flatMap(each => each.status === 'fulfilled' ? [each.value] : [])
    const errors = started.flatMap(each => each.status === 'rejected' ? [(each.reason as Error).message] : [])
    for (const folder of folders) await folder.close()
    t.equal(folders.length, 1)
    t.match(errors, [/another varve \(process \d+\) uses it/])
  }
})

t.test('a folder in place of the lock is refused, and stays where it is', async t => {
  const [path, log] = [testFolder(t), pino({ level: 'silent' })]
  await (await openFolder(path, log)).close()
  mkdirSync(join(path, 'lock', 'mine'), { recursive: true })
  await t.rejects(openFolder(path, log), /cannot be used/)
  t.same(readdirSync(path, { recursive: true }).sort(), ['lock', join('lock', 'mine'), 'varve-cache'])
})

t.test('a folder that another varve has taken is left to it, whether it was removed or emptied', async t => {
  const log = pino({ level: 'silent' })
  for (const isEmptied of [false, true]) {
    const path = join(testFolder(t), 'cache')
    const first = await openFolder(path, log)
    const removed = isEmptied ? readdirSync(path).map(name => join(path, name)) : [path]
    for (const name of removed) rmSync(name, { recursive: true, force: true })
    const second = await openFolder(path, log)
    await first.restore()
    t.ok(first.isLost, 'the first one notices')
    await first.close()
    await t.rejects(openFolder(path, log), /another varve \(process \d+\) uses it/)
    await second.close()
    await (await openFolder(path, log)).close()
  }
})
