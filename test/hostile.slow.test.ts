import t from 'tap'
import { runHostileCases } from './support/hostile/run-hostile-cases.js'

t.test('hostile requests get the same without the fast path', async t => {
  await runHostileCases(t, false)
})
