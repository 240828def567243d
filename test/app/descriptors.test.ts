import { pino } from 'pino'
import t from 'tap'
import { isDescriptorLeft, watchDescriptors } from '../../src/app/descriptors.js'
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
    await until(() => checkCount >= wanted, 'it was checked')
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
