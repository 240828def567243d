import { type ExpectedOutput } from './code-blocks.js'

// Versions, heights, times and ports of the hour have four digits or more; what is shorter is mostly meant as it
// stands, such as a status.
const long = /(?<![0-9A-Za-z.])[0-9]{4,}(?![0-9A-Za-z])/g
const any = /(?<![0-9A-Za-z])[0-9]+(?:\.[0-9]+)*/g

/**
 * Whether what was printed is what a page shows: line by line, but for numbers that differ from hour to hour, and `...`
 * for what was left out.
 */
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

// What stands between numbers is meant to the letter.
function between (text: string, numbers: RegExp): string {
  const number = numbers === any ? '[0-9]+(?:\\.[0-9]+)*' : '[0-9]+'
  return text.split(numbers).map(part => part.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join(number)
}

// Blanks at the end of a line are seen by nobody, and HTTP ends its lines with more than one sign.
function plain (text: string): string {
  return `${text.replace(/[ \t\r]+$/gm, '').replace(/\n+$/, '')}\n`.replace(/^\n$/, '')
}
