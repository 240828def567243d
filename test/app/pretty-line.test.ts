import { pino } from 'pino'
import t from 'tap'
import { prettyLine, allowsColours } from '../../src/app/log.js'

/** Returns what a terminal shows of the log. */
function outputOf (logLine: (log: pino.Logger) => void, hasColours = false): string {
  let out = ''
  logLine(pino({ level: 'trace' }, {
    write: line => {
      out += prettyLine(line, hasColours)
    }
  }))
  return out
}

t.test('a terminal log line has time, level, message and fields, without constant fields', async t => {
  t.match(
    outputOf(log => {
      log.info({ url: 'http://127.0.0.1:8080', workers: 2, ready: true, client: null }, 'listening')
    }),
    /^\d\d:\d\d:\d\d info {2}listening url=http:\/\/127\.0\.0\.1:8080 workers=2 ready=true client=null\n$/
  )
  t.match(
    outputOf(log => {
      log.warn({ reasons: ['a b', 'c'] }, 'refused')
    }),
    / warn {2}refused reasons=\["a b","c"\]\n$/
  )
  t.match(
    outputOf(log => {
      for (const level of ['trace', 'debug', 'error', 'fatal'] as const) log[level]('x')
    }),
    / trace x\n.* debug x\n.* error x\n.* fatal x\n$/
  )
  t.match(prettyLine('{"level":35,"time":0}', false), / 35 {4}\n$/, 'an unknown level is a number')
})

t.test('a value with blanks or quotes, or an empty one, is quoted, so it cannot pass as a field', async t => {
  t.match(
    outputOf(log => {
      log.info(
        { cacheStatus: 'varve; hit', url: '/v1/x y=z', empty: '', quoted: '"a"', back: 'a\\b' },
        'request completed'
      )
    }),
    / request completed cacheStatus="varve; hit" url="\/v1\/x y=z" empty="" quoted="\\"a\\"" back="a\\\\b"\n$/
  )
})

t.test('an error is shown as its message, with its stack below', async t => {
  const out = outputOf(log => {
    log.error({ err: new Error('no luck') }, 'a request failed')
  })
  const [first, ...trace] = out.trimEnd().split('\n')
  t.match(first, / error a request failed err="no luck"$/)
  t.ok(trace.length > 0 && trace.every(line => /^ {6}at /.test(line)), out)
})

t.test('control characters from outside are escaped in values, names, messages and stacks', async t => {
  const hostile = [
    '\u001b[2J',
    '\u009b31m',
    '\u001b]0;title\u0007',
    '\r',
    '\n',
    '\b',
    '\u007f',
    '\u202e',
    '\u2066',
    '\u200b',
    '\u2028',
    '\ufeff',
    '\ud800',
    '\u0000'
  ].join('x')
  const error = new Error(hostile)
  error.stack = `Error: x\n    at ${hostile}`
  for (const hasColours of [false, true]) {
    const out = outputOf(log => {
      log.error({ value: hostile, list: [hostile], [hostile]: 1, err: error }, hostile)
    }, hasColours)
    // eslint-disable-next-line no-control-regex
    t.notMatch(out.replace(/\u001b\[[0-9;]*m/g, '').replaceAll('\n', ''), /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u)
    t.equal(out.split('\n').length, 4, 'one line and two of the stack')
    // eslint-disable-next-line no-control-regex
    if (!hasColours) t.notMatch(out, /\u001b/)
  }
})

t.test('colours are used only on a terminal that supports and wants them', async t => {
  t.match(
    outputOf(log => {
      log.warn({ key: 1 }, 'x')
    }, true),
    '\u001b[33mwarn \u001b[0m x \u001b[2mkey=\u001b[0m1'
  )
  const cases: Array<[Record<string, string>, boolean]> = [[{}, true], [{ TERM: 'xterm', NO_COLOR: '' }, true], [{
    NO_COLOR: '1'
  }, false], [{ TERM: 'dumb' }, false]]
  for (const [environment, wanted] of cases) t.equal(allowsColours(environment), wanted, JSON.stringify(environment))
})
