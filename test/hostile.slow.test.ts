import t from 'tap'
import { runHostileCases } from './support/hostile/run-case.js'

t.test('hostile requests get the same without the fast path', async t => {
  await runHostileCases(t, false)
})
