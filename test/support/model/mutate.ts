import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { latin1Of, type ModelRequest } from './request.js'
import { type SeededRandom } from './seeded-random.js'

const kinds = [
  'path',
  'path',
  'query',
  'query',
  'query',
  'body',
  'body',
  'header',
  'line',
  'line',
  'method'
] as const

const { insertions, types, accepts, codings, methods, lines } = parse(
  readFileSync('test/cases/mutations.yaml', 'utf8')
) as Readonly<Record<'insertions' | 'types' | 'accepts' | 'codings' | 'methods', readonly string[]>> & {
  readonly lines: ReadonlyArray<readonly [name: string, value: string]>
}

/** Changes a valid request in one place, mostly bytes of its target and body; a splice takes its end from `other`. */
export function mutated (sent: ModelRequest, other: ModelRequest, chance: SeededRandom): ModelRequest {
  const what = chance.pick(kinds)
  const [how, at, choice] = [chance.integerBelow(12), chance.integerBelow(201), chance.integerBelow(61)]
  const [path = '', ...rest] = sent.target.split('?')
  const query = rest.length === 0 ? undefined : rest.join('?')
  switch (what) {
    case 'path':
      return {
        ...sent,
        target: legal(
          `/v1/${edited(path.slice(4), { how, at, choice }, other.target.slice(4))}${
            query === undefined ? '' : `?${query}`
          }`
        )
      }
    case 'query':
      return {
        ...sent,
        target: legal(`${path}?${
          how > 8
            ? parametersOf(query ?? '', how, at, choice)
            : edited(query ?? '', { how, at, choice }, other.target.split('?')[1] ?? '')
        }`)
      }
    case 'body':
      return sent.body === undefined
        ? sent
        : {
          ...sent,
          body: how > 9 ? membersOf(sent.body, how, at) : edited(sent.body, { how, at, choice }, other.body ?? '')
        }
    case 'method':
      return { ...sent, method: pick(methods, choice) }
    case 'header':
      return { ...sent, headers: headersOf(sent.headers, { how, at, choice }) }
    case 'line':
      return lineAdded(sent, how, choice)
  }
}

const pick = <T>(list: readonly T[], at: number): T => {
  const found = list[at % list.length]
  if (found === undefined) throw new Error('nothing to pick from')
  return found
}

/** Manner, place and value of an edit. */
interface Edit {
  readonly how: number
  readonly at: number
  readonly choice: number
}

/** Edits a text in one place. */
function edited (text: string, { how, at, choice }: Edit, other: string): string {
  const place = text.length === 0 ? 0 : at % (text.length + 1)
  const [before, after, letter] = [text.slice(0, place), text.slice(place), text.slice(place, place + 1)]
  const hex = (code: string): string => `%${code.charCodeAt(0).toString(16).padStart(2, '0')}`
  switch (how) {
    case 0:
    case 11:
      return before + latin1Of(pick(insertions, choice)) + after
    case 1:
      return before + after.slice(1 + choice % 3)
    case 2:
      return before + after.slice(0, 1 + choice % 8) + after
    case 3:
      return before + after.slice(1, 2) + letter + after.slice(2)
    case 4:
      return before + (letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase()) + after.slice(1)
    case 5:
      return letter === '' ? text : before + hex(letter) + after.slice(1)
    case 6:
      return letter === '' ? text : before + hex(letter).replace('%', '%25') + after.slice(1)
    case 7:
      return before + other.slice(at % (other.length + 1))
    case 8:
      return text.replaceAll('%', '%25')
    case 9:
      return before + latin1Of(pick(insertions, choice)) + after.slice(1)
    default:
      return before + pick(['0', '00', ' '], choice) + after
  }
}

/** Repeats, drops or changes a parameter. */
function parametersOf (query: string, how: number, at: number, choice: number): string {
  const all = query.split('&')
  const one = all[at % all.length] ?? ''
  if (how === 9) return [...all, one].join('&')
  if (how === 10) return [...all, `${one.split('=', 1).join('')}=${choice}`].join('&')
  return all.reverse().slice(choice % 2).join('&')
}

/** Repeats a member with the same value or another. */
function membersOf (body: string, how: number, at: number): string {
  const member = pick(['"key_type":"u64"', '"value_type":"u64"', '"key":"7"', '"key":"8"'], at)
  return how === 10 ? body.replace('{', `{${member},`) : body.replace(/\}[^}]*$/, `,${member}}`)
}

function headersOf (headers: ModelRequest['headers'], { how, at, choice }: Edit): ModelRequest['headers'] {
  const place = at % Math.max(1, headers.length)
  const [name, value] = headers[place] ?? ['accept', 'application/json']
  switch (how % 6) {
    case 0:
      return [...headers, [name, value]]
    case 1:
      return [...headers, [name.toUpperCase(), pick(name === 'content-type' ? types : accepts, choice)]]
    case 2:
      return headers.filter((_, nth) => nth !== place)
    case 3:
      return [['accept', pick(accepts, choice)], ...headers.filter(([known]) => known !== 'accept')]
    case 4:
      return [['content-type', pick(types, choice)], ...headers.filter(([known]) => known !== 'content-type')]
    // Truncates or lengthens a value, without line breaks.
    default:
      return headers.map((line, nth) =>
        nth === place
          ? [name, edited(value, { how: at % 5, at, choice }, '').replace(/[^\x20-\x7e\xa0-\xff]/g, '')]
          : line
      )
  }
}

function lineAdded (sent: ModelRequest, how: number, choice: number): ModelRequest {
  if (how < 7) return { ...sent, headers: [...sent.headers, ['accept-encoding', pick(codings, choice)]] }
  if (how === 7 && sent.body !== undefined) return { ...sent, isChunked: true }
  return { ...sent, headers: [...sent.headers, pick(lines, choice)] }
}

// Encodes blanks and line breaks, which would change the request line; framing has tests of its own.
const legal = (target: string): string => target.replace(/[\s\0\x7f]/g, '%09')
