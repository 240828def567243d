import t from 'tap'
import { runHostileCases } from './support/hostile/run-case.js'

t.test('hostile requests', async t => {
  await runHostileCases(t, true)
})
