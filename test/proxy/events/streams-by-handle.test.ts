import t from 'tap'
import { StreamsByHandle } from '../../../src/proxy/events/streams-by-handle.js'

t.test('a path mapping expires in time, and a response at a lower version never changes it', async t => {
  const clock = { ms: 0 }
  let changes = 0
  const names = new StreamsByHandle(() => clock.ms, () => {
    changes++
  })
  names.learn('p', 'a', 10n, 100)
  t.match(names.find('p'), { stream: 'a', expiresAtMs: 100 })
  clock.ms = 60
  names.learn('p', 'a', 10n, 100)
  t.same([names.find('p')?.expiresAtMs, changes], [160, 1], 'seeing it again extends its lifetime and changes nothing')
  names.learn('p', 'b', 9n, 100)
  names.remove('p', 9n)
  t.equal(names.find('p')?.stream, 'a')
  names.learn('p', 'b', 10n, 100)
  t.same([names.find('p')?.stream, names.find('q'), changes], ['b', undefined, 2])
  clock.ms = 160
  t.same([names.find('p'), names.lastKnown('p'), names.lastKnown('q')], [undefined, 'b', undefined])
  names.remove('q')
  names.remove('p', 10n)
  names.remove('p')
  t.same([names.lastKnown('p'), changes], [undefined, 3])
})

t.test('a path mapping is shared when new, when changed, and past half of its lifetime', async t => {
  const clock = { ms: 0 }
  const names = new StreamsByHandle(() => clock.ms, () => {})
  const takesForSharing = (stream: string): boolean => {
    names.learn('p', stream, 1n, 100)
    return names.takeDueForSharing('p') !== undefined
  }
  t.equal(names.takeDueForSharing('p'), undefined, 'no mapping is known')
  t.same([takesForSharing('a'), takesForSharing('a')], [true, false])
  clock.ms = 40
  t.equal(takesForSharing('a'), false)
  clock.ms = 60
  t.same([takesForSharing('a'), takesForSharing('a'), takesForSharing('b'), takesForSharing('b')], [
    true,
    false,
    true,
    false
  ])
})
