import t from 'tap'
import { readCase } from './support/hostile/hostile-case.js'
import { runHostileCases } from './support/hostile/run-hostile-cases.js'

t.test('hostile requests', async t => {
  await runHostileCases(t, true)
})

t.test('a case with an unknown field is rejected, since nothing would check it', async t => {
  const plain = { id: 'x', class: 'x', raw: 'x', expect: 'something or other', why: 'something or other', check: {} }
  t.match(readCase(JSON.stringify(plain)), plain)
  t.throws(() => readCase(JSON.stringify({ ...plain, more: 1 })), /more/)
  t.throws(() => readCase(JSON.stringify({ ...plain, check: { staus: [200] } })), /staus/)
})
