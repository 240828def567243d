import t from 'tap'
import { join } from 'node:path'
import { pino } from 'pino'
import { isDescriptorLeft, watchDescriptors, maxDescriptorsOfProcess } from '../../src/app/listen.js'
import { until } from '../support/until.js'

t.test('exhausted file descriptors are logged and counted once, and so is their return', async t => {
  const log: string[] = []
  let [isLeft, checkCount, exhausted] = [true, 0, 0]
  const check = (): boolean => {
    checkCount++
    return isLeft
  }
  const after = async (more: number): Promise<void> => {
    const wanted = checkCount + more
    await until(() => checkCount >= wanted, 'the descriptors were checked')
  }
  t.teardown(watchDescriptors(
    pino({}, { write: line => log.push(line) }),
    () => {
      exhausted++
    },
    check,
    1
  ))
  await after(3)
  t.same([log.length, exhausted], [0, 0])
  isLeft = false
  await after(5)
  t.same([log.length, exhausted], [1, 1])
  t.match(log[0], /"level":50.*no file descriptor left/)
  isLeft = true
  await after(5)
  t.same([log.length, exhausted], [2, 1])
  t.match(log[1], /file descriptors available again/)
})

t.test('a descriptor is free if a file can be opened', async t => {
  t.ok(isDescriptorLeft())
})

t.test('the descriptor limit is read from the system, with 1024 as the fallback', async t => {
  t.ok(maxDescriptorsOfProcess() > 0)
  const dir = t.testdir({
    limits: 'Limit  Soft Limit\nMax open files            20000                20001                files     \n',
    other: 'nothing of it'
  })
  t.equal(maxDescriptorsOfProcess(join(dir, 'limits')), 20_000)
  t.equal(maxDescriptorsOfProcess(join(dir, 'other')), 1024)
  t.equal(maxDescriptorsOfProcess(join(dir, 'none')), 1024)
})
