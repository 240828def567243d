import { readFileSync } from 'node:fs'
import { privateWordIn } from './trade-words.js'

const mostWords = 25
const mostColumns = 120

// Words that have other meanings in code, so that only pages reject them.
const pageWords = [
  [/\bkept\b/i, 'cached, stored, retained'],
  [/\bpassed on\b/i, 'forwarded'],
  [/\bspellings?\b/i, 'request variant']
]

/** Lists private words, long lines and long sentences of a Markdown page, each with its line. */
export function proseFaults (text) {
  const sentences = sentencesIn(text)
  return {
    count: sentences.length,
    tooLong: sentences.filter(({ words }) => words > mostWords).map(({ line, words, text }) =>
      `line ${line}: ${words} words: ${text}`
    ),
    faults: [
      ...sentences.flatMap(({ line, text }) => {
        const fault = privateWordIn(text) ?? pageWordIn(text)
        return fault === undefined ? [] : [`line ${line}: ${fault}`]
      }),
      ...longLinesIn(text)
    ]
  }
}

function pageWordIn (text) {
  for (const [pattern, instead] of pageWords) {
    const [word] = pattern.exec(text) ?? []
    if (word !== undefined) return `"${word}" is private vocabulary: say ${instead}`
  }
  return undefined
}

/** Returns long lines, except those that Markdown cannot wrap: rows of a table and code. */
function longLinesIn (text) {
  return proseLinesOf(text).filter(({ text }) => text.length > mostColumns && !text.startsWith('|')).map(
    ({ line, text }) => `line ${line}: ${text.length} columns`
  )
}

function sentencesIn (text) {
  return partsOf(text).flatMap(({ line, text }) =>
    plainTextOf(text).split(/(?<=[.!?]["')]*)\s+(?=["'(]*(?:[\p{Lu}\p{N}]|varve\b))/u).map(sentence => ({
      line,
      text: sentence.trim(),
      words: sentence.split(/\s+/).filter(word => /[\p{L}\p{N}]/u.test(word)).length
    }))
  ).filter(({ words }) => words > 0)
}

/** Returns paragraphs, items of lists, headings and cells of tables, each with its first line. */
function partsOf (text) {
  const parts = []
  let part
  for (const { line, text: row } of proseLinesOf(text)) {
    if (row.startsWith('|')) {
      parts.push(...row.split(/(?<!\\)\|/).map(text => ({ line, text })))
      part = undefined
    } else if (row.trim() === '' || /^#/.test(row)) {
      parts.push({ line, text: row })
      part = undefined
    } else if (part === undefined || /^\s*(?:[-*]|\d+\.)\s/.test(row)) {
      part = { line, text: row.replace(/^\s*(?:[-*]|\d+\.)\s/, '') }
      parts.push(part)
    } else {
      part.text += ` ${row.trim()}`
    }
  }
  return parts
}

function proseLinesOf (text) {
  const lines = []
  let fence
  for (const [at, row] of text.split('\n').entries()) {
    const [, mark] = /^ *(`{3,})/.exec(row) ?? []
    if (fence === undefined && mark === undefined) lines.push({ line: at + 1, text: row })
    if (mark !== undefined && (fence === undefined || mark === fence)) fence = fence === undefined ? mark : undefined
  }
  return lines
}

/** Reduces code to one word and links to their text, since neither is prose. */
function plainTextOf (text) {
  return text.replace(/<!--.*?-->|<[^>]+>/g, '').replace(/`[^`]*`/g, 'Code').replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll('*', '')
}

if (process.argv[1] === import.meta.filename) {
  for (const file of process.argv.slice(2)) {
    const { count, tooLong, faults } = proseFaults(readFileSync(file, 'utf8'))
    for (const fault of [...faults, ...tooLong]) process.stdout.write(`${file}: ${fault}\n`)
    process.stdout.write(`${file}: ${tooLong.length} of ${count} sentences have more than ${mostWords} words\n`)
  }
}
