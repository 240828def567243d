import t from 'tap'
import { type LogWriter, logWriterOf } from '../../src/app/log.js'

/** Creates a writer to a disk and a pipe that the test controls. */
function linesTo (): {
  lines: LogWriter,
  disk: { isFull: boolean, buffered: number, text: string[] },
  lostCounts: number[]
} {
  const disk = { isFull: false, buffered: 0, text: [] as string[] }
  const lostCounts: number[] = []
  const lines = logWriterOf({
    bufferedBytes: () => disk.buffered,
    out: (text, done) => {
      if (!disk.isFull) disk.text.push(String(text))
      done?.(disk.isFull ? new Error('ENOSPC') : null)
    }
  }, {
    mask: line => line.replace('s3cret', '***'),
    render: line => line
  })
  lines.recovered.subscribe(lost => {
    lostCounts.push(lost)
  })
  return { lines, disk, lostCounts }
}

t.test('log lines lost to a full disk are counted, and reported when writes work again', async t => {
  const { lines, disk, lostCounts } = linesTo()
  lines.write('{"level":30}\n')
  disk.isFull = true
  for (let nth = 0; nth < 3; nth++) lines.write('{"level":30}\n')
  t.equal(lines.lostLines(), 3)
  t.same(lostCounts, [])
  disk.isFull = false
  lines.write('{"level":30}\n')
  lines.write('{"level":30}\n')
  t.same(
    disk.text,
    ['{"level":30}\n', '\n{"level":30}\n', '{"level":30}\n'],
    'the previous line may be incomplete'
  )
  t.same(lostCounts, [3], 'reported once')
  t.equal(lines.lostLines(), 3)
})

t.test('a stalled log reader loses lines instead of using memory, and reports their number later', async t => {
  const { lines, disk, lostCounts } = linesTo()
  disk.buffered = 1_048_577
  for (let nth = 0; nth < 5; nth++) lines.write('{"level":30}\n')
  t.same([lines.lostLines(), disk.text], [5, []])
  disk.buffered = 1_000_000
  lines.write('{"level":30}\n')
  t.same([disk.text, lostCounts], [['{"level":30}\n'], []])
  disk.buffered = 0
  lines.write('{"level":30}\n')
  t.same([disk.text.length, lostCounts], [2, [5]])
})

t.test('log lines of level warn and above are masked, and others pass unchanged', async t => {
  const { lines, disk } = linesTo()
  for (const level of [10, 20, 30, 40, 50, 60]) lines.write(`{"level":${level},"msg":"s3cret"}`)
  t.same(disk.text.map(text => text.includes('***')), [false, false, false, true, true, true])
  lines.write('')
  t.equal(disk.text.at(-1), '')
})
