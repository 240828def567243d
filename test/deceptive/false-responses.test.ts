import t from 'tap'
import { tryLies } from '../support/hostile/deception.js'
import { liesTried } from '../support/hostile/lies.js'

// All kinds of read take too long here; `npm run nightly -- lies` has the rest.
const kinds = 1

for (const { promise, lies } of liesTried('on reads')) {
  t.test(promise, async t => {
    await tryLies(t, lies, kinds)
  })
}
