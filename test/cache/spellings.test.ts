import t from 'tap'
import { Spellings } from '../../src/cache/spellings.js'

t.test('what is asked for again and again stays, however much else comes by; what is not is forgotten', t => {
  const spellings = new Spellings<{ name: string }>(200_000)
  spellings.remember('often', { name: 'often' })
  spellings.remember('once', { name: 'once' })
  for (let at = 0; at < 10_000; at++) {
    spellings.remember(`other ${at}`, { name: 'other' })
    if (at % 10 === 0) t.match(spellings.find('often'), { name: 'often' })
  }
  t.equal(spellings.find('once'), undefined)
  t.match(spellings.find('other 9999'), { name: 'other' })
  t.end()
})

t.test('no more is kept than there is room for, counted with what each costs beside its text', t => {
  const kept = (bytes: number, length: number): number => {
    const spellings = new Spellings<object>(bytes)
    const names = Array.from({ length: 5000 }, (_, at) => String(at).padStart(length, '0'))
    for (const name of names) spellings.remember(name, {})
    return names.reverse().filter(name => spellings.find(name) !== undefined).length
  }
  t.ok(kept(1e6, 10) <= 1e6 / 1500)
  t.ok(kept(1e6, 1000) <= 1e6 / 2500)
  t.ok(kept(1e6, 10) >= 1e6 / 1540 / 2 - 1, 'and no less than half of that')
  t.end()
})

t.test('to be told the same again takes no more room, and the last word counts', t => {
  const spellings = new Spellings<{ at: number }>(10_000)
  spellings.remember('other', { at: -1 })
  for (let at = 0; at < 100; at++) spellings.remember('same', { at })
  t.same(spellings.find('same'), { at: 99 })
  t.same(spellings.find('other'), { at: -1 })
  t.end()
})
