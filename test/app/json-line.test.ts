import t from 'tap'
import { openLog, type Log } from '../../src/app/log.js'
import { type Io } from '../../src/app/io.js'
import { configSchema } from '../../src/config/schema.js'

const configOf = (log: object): ReturnType<typeof configSchema.parse> =>
  configSchema.parse({ log: { level: 'trace', ...log }, admin: { token: 's3cret-token' } })

/** Opens a log that is no terminal, and returns its lines, parsed. */
function open (form: object): Log & { lines: Array<Record<string, unknown>> } {
  const lines: Array<Record<string, unknown>> = []
  const io: Pick<Io, 'environment' | 'isTerminal' | 'bufferedBytes' | 'out'> = {
    environment: {},
    isTerminal: false,
    bufferedBytes: () => 0,
    out: (text, done) => {
      lines.push(JSON.parse(text))
      done?.(null)
    }
  }
  return { ...openLog(io as Io, configOf(form)), lines }
}

t.test('levels are numbers and times are milliseconds by default', async t => {
  const { log, lines } = open({})
  log.info({ a: 1 }, 'event')
  t.match(lines, [{ level: 30, time: Number, a: 1, msg: 'event' }])
})

t.test('log.levelNames prints the name of each level', async t => {
  const { log, lines } = open({ levelNames: true })
  for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const) log[level]('event')
  t.same(lines.map(({ level }) => level), ['trace', 'debug', 'info', 'warn', 'error', 'fatal'])
  t.type(lines[0]?.['time'], 'number')
})

t.test('log.isoTimes prints the time of each line as ISO 8601', async t => {
  const { log, lines } = open({ isoTimes: true })
  const before = Date.now()
  log.child({ worker: 1 }).warn('event')
  t.match(lines, [{ level: 40, time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, worker: 1 }])
  t.ok(Date.parse(String(lines[0]?.['time'])) >= before)
})

t.test('secrets are masked in lines with names and ISO times too', async t => {
  const { log, lines } = open({ levelNames: true, isoTimes: true })
  log.warn({ reason: 'rejected s3cret-token' }, 'event')
  log.error({ reason: '{"level":30,"time":1' }, 'event')
  t.match(lines, [{ level: 'warn', reason: 'rejected ***' }, { level: 'error', reason: '{"level":30,"time":1' }])
})

t.test('a reload changes the form of later lines', async t => {
  const { log, lines, useForm } = open({})
  log.info('one')
  useForm(configOf({ levelNames: true, isoTimes: true }))
  log.info('two')
  t.match(lines, [{ level: 30, time: Number }, { level: 'info', time: String }])
})
