import { type ExpectedOutput } from './code-blocks.js'

// Matches versions, heights, times and ports, which have four digits or more; shorter numbers are literal, such as a
// status.
const long = /(?<![0-9A-Za-z.])[0-9]{4,}(?![0-9A-Za-z])/g
const any = /(?<![0-9A-Za-z])[0-9]+(?:\.[0-9]+)*/g

/** True if output matches the page line by line, except for variable numbers and `...` for omissions. */
export function matchesOutput (printed: string, { text, numbersDiffer }: ExpectedOutput): boolean {
  return patternOf(text, numbersDiffer).test(plain(printed))
}

function patternOf (text: string, numbersDiffer: boolean): RegExp {
  const lines = plain(text).split('\n').slice(0, -1).map(line =>
    line.trim() === '...' ? '(?:.*\\n)*?' : `${patternOfLine(line, numbersDiffer)}\\n`
  )
  return new RegExp(`^${lines.join('')}$`)
}

function patternOfLine (line: string, numbersDiffer: boolean): string {
  return line.split('...').map(part => between(part, numbersDiffer ? any : long)).join('.*')
}

// Matches text between numbers literally.
function between (text: string, numbers: RegExp): string {
  const number = numbers === any ? '[0-9]+(?:\\.[0-9]+)*' : '[0-9]+'
  return text.split(numbers).map(part => part.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join(number)
}

// Strips invisible blanks at the end of lines and the CR of HTTP.
function plain (text: string): string {
  return `${text.replace(/[ \t\r]+$/gm, '').replace(/\n+$/, '')}\n`.replace(/^\n$/, '')
}
